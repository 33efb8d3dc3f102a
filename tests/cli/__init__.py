"""The command `tapegrad`, mostly in this process, and as a program where that is the point."""
