#!/bin/sh
# Makes the certificates of the tests of RPC-over-TLS. They protect nothing: their keys are public.
# Usage: ./make.sh, in this directory. Needs OpenSSL 3.
set -eu

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
cat > "$scratch/ca.cnf" <<CONFIG
[ca]
default_ca = test
[test]
database = $scratch/index
new_certs_dir = $scratch
rand_serial = yes
default_md = sha256
policy = policy
unique_subject = no
[policy]
commonName = supplied
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[server]
subjectAltName = DNS:localhost
[client]
subjectAltName = DNS:client
CONFIG
: > "$scratch/index"

# certificate FILE NAME SECTION END-OF-VALIDITY SIGNER...
certificate() {
    file=$1 name=$2 section=$3 end=$4
    shift 4
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$file.key" \
        -out "$scratch/request" -subj "/CN=$name"
    openssl ca -batch -config "$scratch/ca.cnf" -extensions "$section" -notext \
        -startdate 20200101000000Z -enddate "$end" -in "$scratch/request" -out "$file.pem" "$@"
}

never=21200101000000Z
certificate authority "test authority" authority $never -selfsign -keyfile authority.key
certificate server localhost server $never -cert authority.pem -keyfile authority.key
certificate renewed localhost server $never -cert authority.pem -keyfile authority.key
certificate client client client $never -cert authority.pem -keyfile authority.key
certificate expired client client 20210101000000Z -cert authority.pem -keyfile authority.key
certificate other-authority "other authority" authority $never -selfsign \
    -keyfile other-authority.key
certificate stranger client client $never -cert other-authority.pem -keyfile other-authority.key
rm authority.key other-authority.key
