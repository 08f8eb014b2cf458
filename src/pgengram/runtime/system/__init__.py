"""What differs between operating systems: streams, files, processes, loop, memory, libraries."""
