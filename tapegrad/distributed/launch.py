"""`python -m torch.distributed.launch`, the older name of `torch.distributed.run`."""

from tapegrad.distributed import run

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run a program as several processes, and leave with its exit status.

    Args:
        args: the command line; that of this process if left out.
    """
    run.main(args, name="torch.distributed.launch")


if __name__ == "__main__":
    main()
