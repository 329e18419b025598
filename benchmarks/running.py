"""The stack that is up."""

from chaos.errors import StackError
from chaos.paths import stack_dir
from chaos.stack.cluster import Cluster
from chaos.stack.kind import StackFolder


def running_cluster(name="kuberay-chaos"):
    """Its API and its folder. Raises StackError when there is none."""
    folder = StackFolder(stack_dir(name))
    if not folder.kubeconfig.exists():
        raise StackError(f"the stack {name} is not up", fix="make up")
    return Cluster(name, folder.kubeconfig), folder
