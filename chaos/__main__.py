"""``python -m chaos`` is the ``kuberay-chaos`` command."""

import sys

from chaos.cli import main

if __name__ == "__main__":
    sys.exit(main())
