# The command and the Python package on Debian 12:
#
#   docker build -t polyhead .
#   docker run --rm -it --network host -v polyhead:/cache polyhead get smollm2
#   docker run --rm -it --network host -v polyhead:/cache polyhead serve smollm2      then open the address that it prints
#
# /cache keeps models and their roles, /work is for files of yours (-v "$PWD:/work").
FROM debian:12 AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /polyhead
COPY . .
RUN make wheel

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates librsvg2-2 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home user \
 && install -d -o user /cache /work
# With the source of what is linked in under the LGPL, which goes wherever the wheel goes.
COPY --from=build /polyhead/build/wheel /usr/share/polyhead
RUN python3 -m venv /opt/polyhead && /opt/polyhead/bin/pip install --no-cache-dir /usr/share/polyhead/*.whl
ENV PATH=/opt/polyhead/bin:$PATH POLYHEAD_CACHE=/cache
USER user
VOLUME /cache
WORKDIR /work
ENTRYPOINT ["polyhead"]
CMD ["--help"]
