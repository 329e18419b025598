"""Baking: the node image with every other image already in its containerd.

A pod's start must not wait for an image to be loaded, and what isn't there can't be pulled from a sealed network. Images
go in under their official names and are not unpacked: that would triple the node's size, and a start unpacks what it needs.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping

from chaos.console import Console
from chaos.errors import ImageError
from chaos.process import Executed, run
from chaos.stack.engine import Engine
from chaos.stack.images import cache
from chaos.stack.images.source import Provided
from chaos.waiting import until

# On the container in which an image is being baked.
BAKE_LABEL = "kuberay-chaos.bake"

_CTR = ["ctr", "--namespace", "k8s.io"]


def bake(engine: Engine, provided: Provided, console: Console) -> str:
    """The reference of a node image that holds all of ``provided``; made when missing."""
    wanted = {**provided.control_plane, **provided.images}
    identities = {official: engine.image_id(local) for official, local in wanted.items()}
    reference = f"kuberay-chaos/node-with-images:{cache.key(engine.image_id(provided.node), identities)}"
    if engine.has_image(reference):
        return reference
    container = f"kuberay-chaos-bake-{uuid.uuid4().hex[:8]}"
    with console.step("Node image with all images in it", expect=60) as step:
        engine.docker(
            "run", "--detach", "--rm", "--privileged", "--network=none", "--name", container,
            "--label", f"{BAKE_LABEL}=true", "--entrypoint", "sleep", provided.node, "infinity",
        )  # fmt: skip
        try:
            engine.docker("exec", "--detach", container, "containerd")
            until(
                lambda: engine.exec(container, [*_CTR, "version"]).ok,
                what="containerd in the node image", deadline=30, error=ImageError,
            )  # fmt: skip
            step.say("importing")
            load_into(engine, container, wanted)
            # End containerd before the commit, so that its database is closed.
            engine.exec(container, ["pkill", "-TERM", "-x", "containerd"])
            until(
                lambda: not engine.exec(container, ["pgrep", "-x", "containerd"]).ok,
                what="the end of containerd in the node image", deadline=30, error=ImageError,
            )  # fmt: skip
            step.say("committing")
            engine.docker(
                "commit", "--change", 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]', "--change", "CMD []",
                container, reference, timeout=300,
            )  # fmt: skip
        finally:
            engine.docker("rm", "--force", container, check=False)
    return reference


def load_into(engine: Engine, container: str, images: Mapping[str, str]) -> None:
    """Import engine images (official name → reference) into a node's containerd under their official names.

    Streamed from `docker save`: `kind load docker-image` fails where the engine keeps images in containerd.
    """
    references = sorted(set(images.values()))
    save = subprocess.Popen(["docker", "save", *references], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        run(
            ["docker", "exec", "-i", container, *_CTR, "images", "import", "--no-unpack", "--digests", "-"],
            stdin=save.stdout, timeout=600, error=ImageError,
        )  # fmt: skip
    finally:
        save.kill()
        save.communicate()
    for official, local in images.items():
        _tag(engine, container, local, official)
    for local in references:
        if local not in images:
            engine.exec(container, [*_CTR, "images", "rm", _qualified(local)])


def _tag(engine: Engine, container: str, local: str, official: str) -> None:
    if _qualified(local) == official:
        return
    tagged: Executed = engine.exec(container, [*_CTR, "images", "tag", "--force", _qualified(local), official])
    if not tagged.ok:
        raise ImageError(f"{official} is not in {container} after the import: {tagged.error_text[-300:]}")


def _qualified(reference: str) -> str:
    """The name that containerd gives to a Docker reference: with its registry's host."""
    first = reference.partition("/")[0]
    if "." in first or ":" in first:
        return reference
    return f"docker.io/{reference}" if "/" in reference else f"docker.io/library/{reference}"
