"""``python -m chaos`` is the ``kuberay-chaos`` command."""

from chaos.cli import command

if __name__ == "__main__":
    command()
