"""PyTorch beside the library, for the tests of this folder."""

import pytest
from library import IS_TORCH, pytorch_for_parity

if IS_TORCH:
    pytest.skip("these compare the library with PyTorch", allow_module_level=True)


@pytest.fixture(scope="session")
def pytorch():
    library, reason = pytorch_for_parity()
    if library is None:
        pytest.skip(reason)
    return library
