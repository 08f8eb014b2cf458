"""The programs that assistants run in, connected to pgengram and checked."""
