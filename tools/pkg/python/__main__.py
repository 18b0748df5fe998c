# SPDX-License-Identifier: MIT
"""`python -m bedplate ..` is `bedplate ..`."""
from . import _main

_main()
