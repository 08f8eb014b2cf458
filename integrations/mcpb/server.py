"""What the bundle starts: the server of the installed package."""

from pgengram.__main__ import main

main()
