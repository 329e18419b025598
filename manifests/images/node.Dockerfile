# A kind node: Debian's packages, kind's own files from its module, and the Kubernetes programs.
ARG BASE
FROM ${BASE}
COPY files/ /
COPY bin/ /usr/bin/
ARG KUBERNETES
# Files of the module cache are not executable. kind looks for containerd's programs in /usr/local/bin and for network plugins in /opt/cni/bin. Packages enable
# services that a node must not start; only these three may.
# restrict_oom_score_adj: where the machine lacks CAP_SYS_RESOURCE nothing may lower an oom score.
RUN set -eu; chmod 755 /kind/bin /kind/bin/* /usr/local/bin/*; \
    for program in containerd ctr containerd-shim-runc-v2 crictl; do ln -sf "/usr/bin/$program" "/usr/local/bin/$program"; done; \
    mkdir -p /opt/cni /etc/kubernetes/manifests; ln -sfn /usr/lib/cni /opt/cni/bin; \
    find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete; \
    rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* /lib/systemd/system/local-fs.target.wants/* \
      /lib/systemd/system/sockets.target.wants/*udev* /lib/systemd/system/sockets.target.wants/*initctl* \
      /lib/systemd/system/basic.target.wants/* /lib/systemd/system/containerd.service; \
    echo "ReadKMsg=no" >> /etc/systemd/journald.conf; \
    systemctl enable kubelet.service containerd.service undo-mount-hacks.service; systemctl mask systemd-binfmt.service; \
    ctr oci spec \
      | jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
      > /etc/containerd/cri-base.json; \
    sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml; \
    grep -q 'restrict_oom_score_adj = true' /etc/containerd/config.toml; test -s /etc/containerd/cri-base.json; \
    echo "v${KUBERNETES}" > /kind/version
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
