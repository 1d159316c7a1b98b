"""`python -m grokscope` is the command `grokscope`."""

from grokscope.cli import main

if __name__ == "__main__":
    main()
