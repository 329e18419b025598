# Redis and Sentinel as Debian packages them.
ARG BASE
FROM ${BASE}
RUN mkdir -p /data && chown redis:redis /data
WORKDIR /data
CMD ["redis-server"]
