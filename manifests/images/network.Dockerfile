# kube-proxy and kube-router need the packages iptables, ipset and conntrack beside them.
ARG BASE
FROM ${BASE}
ARG PROGRAM
COPY program /usr/local/bin/${PROGRAM}
RUN ln -sf "/usr/local/bin/${PROGRAM}" /usr/local/bin/entrypoint
ENTRYPOINT ["/usr/local/bin/entrypoint"]
