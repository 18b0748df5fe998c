# SPDX-License-Identifier: MIT
# Two "hosts" on one machine for tests of several processes: network and UTS namespaces with their
# own addresses and names, joined by one cable. Sourced; needs root, ip, nsenter and unshare.
#   hosts_make DIR       makes them, false with a reason in $hosts_why where that cannot be done
#   hosts_openmpi ARGS   mpirun.openmpi on the first host, with ranks on both; ARGS begin with -n N
#   hosts_mpich ARGS     the same with mpirun.mpich
#   hosts_slow RATE, hosts_cut, hosts_mend   slow down the cable, cut it, mend it
#   hosts_end            kills what is left there and removes them
hosts_net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250))
hosts_a=bp-a-$$
hosts_b=bp-b-$$

hosts_make() {
    hosts_dir=$1
    hosts_why='network namespaces cannot be made here'
    [[ $(id -u) -eq 0 ]] && command -v ip nsenter unshare >/dev/null || return 1
    ip netns add "$hosts_a" 2>/dev/null && ip netns add "$hosts_b" 2>/dev/null || return 1
    ip -n "$hosts_a" link add eth0 type veth peer name eth0 netns "$hosts_b" 2>/dev/null || return 1
    ip -n "$hosts_a" address add "$hosts_net.1/24" dev eth0
    ip -n "$hosts_b" address add "$hosts_net.2/24" dev eth0
    for host in "$hosts_a" "$hosts_b"; do
        ip -n "$host" link set lo up && ip -n "$host" link set eth0 up || return 1
    done
    # MPICH does not start over a link that is only coming up.
    for host in "$hosts_a" "$hosts_b"; do
        for ((i = 0; i < 50; i++)); do
            ip -n "$host" link show eth0 | grep -q 'LOWER_UP.* state UP' && break
            sleep 0.1
        done
    done
    # A launcher that has something to say to a lost host gives up after seconds, not a quarter of an hour.
    ip netns exec "$hosts_a" sysctl -qw net.ipv4.tcp_retries2=4 2>/dev/null
    unshare -u true 2>/dev/null || { hosts_why='UTS namespaces cannot be made here'; return 1; }
    # What stands for ssh: AGENT [OPTIONS] ADDRESS COMMAND..
    cat >"$hosts_dir/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in *.1) name=$hosts_a ;; *) name=$hosts_b ;; esac
shift
command="\$*"
exec nsenter --net=/run/netns/\$name unshare -u bash -c "hostname \$name; exec bash -c \"\\\$0\"" "\$command"
END
    chmod +x "$hosts_dir/agent"
}

# On the first host: COMMAND..
hosts_run() {
    nsenter --net=/run/netns/$hosts_a unshare -u bash -c 'hostname "$0"; exec "$@"' "$hosts_a" "$@"
}

hosts_openmpi() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 hosts_run timeout -k 5 "${hosts_limit:-120}" \
        mpirun.openmpi --oversubscribe --map-by node --host "$hosts_net.1:8,$hosts_net.2:8" \
        --mca plm_rsh_agent "$hosts_dir/agent" --mca btl tcp,self --mca btl_tcp_if_include "$hosts_net.0/24" \
        --mca oob_tcp_if_include "$hosts_net.0/24" --mca oob_tcp_keepalive_time 2 \
        --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 "$@"
}

hosts_mpich() {
    UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 hosts_run timeout -k 5 "${hosts_limit:-120}" \
        mpirun.mpich -launcher ssh -launcher-exec "$hosts_dir/agent" -hosts "$hosts_net.1,$hosts_net.2" \
        -iface eth0 "$@"
}

hosts_slow() {
    ip netns exec "$hosts_b" tc qdisc replace dev eth0 root tbf rate "$1" burst 64kb latency 400ms
}

hosts_cut() {
    ip -n "$hosts_b" link set eth0 down
}

hosts_mend() {
    ip -n "$hosts_b" link set eth0 up
}

hosts_end() {
    local host pid i
    for host in "$hosts_a" "$hosts_b"; do
        for pid in $(ip netns pids "$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$host" 2>/dev/null
    done
}
