# Ray from its wheels, in the shape of the official image as far as KubeRay relies on it: user ray, `ray` on the PATH, wget
# for the probes, bash for the start command.
ARG BASE
FROM ${BASE}
RUN useradd --uid 1000 --create-home --shell /bin/bash ray && ln -sf /usr/bin/python3 /usr/local/bin/python \
 && printf '#!/usr/bin/python3\nimport sys\nfrom ray.scripts.scripts import main\nsys.exit(main())\n' > /usr/local/bin/ray \
 && chmod 755 /usr/local/bin/ray
COPY site-packages/ /usr/local/lib/python3.11/dist-packages/
USER ray
WORKDIR /home/ray
ENV PATH=/usr/local/bin:/usr/bin:/bin RAY_USAGE_STATS_ENABLED=0
CMD ["bash"]
