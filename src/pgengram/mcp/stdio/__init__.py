"""The process's standard streams as one line-wise channel, and every reason to end the process.

`StdioFds` is the pair of descriptors, taken away from everybody else; `Channel` carries lines over it for one event
loop; `ParentWatchdog` is a thread that notices when the client is gone and ends the process even if the loop is stuck.
Nothing here knows MCP.
"""
