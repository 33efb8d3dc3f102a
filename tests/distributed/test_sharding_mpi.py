"""What is divided between processes, on MPI: the tests of ranks again, and training beside one."""

from distributed.test_mpi import HERE, run


def test_ranks_that_are_processes_divide_tensors_and_modules():
    files = HERE / "test_dtensor.py", HERE / "test_fsdp.py"
    printed = run(4, "-m", "pytest", "-p", "no:cacheprovider", "-x", *files)
    assert printed.count(" passed") == 4


def test_training_beside_one_process():
    # 200 steps with the argument 200.
    assert run(4, HERE / "sharded_program.py", 8).count("within rounding") == 3
