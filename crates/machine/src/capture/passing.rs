//! Which files pass into a capture, by name. All else is left out: what nobody has looked at may hold
//! anything.
//!
//! A file that the probe newly reads is put into one of the lists, or gets a rule in `files`. Until then the
//! tarball lacks it, and what a probe made of it is in `linerate/machine.json` only where none of its
//! words is repeated.

/// The words of the kernel, of a driver or of a maker. Addresses, hosts and serial numbers are replaced
/// within; whatever else is there is in the tarball, so nothing that an owner may write belongs here.
pub(super) const WORDS: &str = "\
    actions array_state available_clocksource bios_vendor board_vendor capabilities compatible cpu.stat \
    cpuinfo current_driver current_link_speed default_qdisc enabled firmware_rev hw_sata_spd_limit \
    interrupts level limits max_link_speed max_width maximum_linkrate maximum_linkrate_hw meminfo \
    min_period model name negotiated_linkrate operstate osrelease period port_state proc_name \
    product_name sata_spd scaling_driver scaling_governor scheduler speed stat state status \
    supported_speeds sync_action sys_vendor tcp_available_congestion_control tcp_congestion_control \
    transport type version width write_cache";

/// Figures and lists of figures. With anything else in it such a file is left out.
const FIGURES: &str = "\
    active alignment_offset boost carrier cgroup.procs chunk_size class coherency_line_size core_cpus \
    core_cpus_list core_id cpu.cfs_period_us cpu.cfs_quota_us cpu.max cpuinfo_max_freq cpuinfo_min_freq \
    cpulist cpumap current_link_width degraded dev device disable discard_max_bytes distance \
    effective_affinity effective_affinity_list energy_uj free_hugepages hidden ifindex io_uring_disabled \
    irq latency layout logical_block_size max_energy_range_uj max_link_width max_sectors_kb \
    minimum_io_size missing mtu netdev_budget netdev_max_backlog no_turbo nr_hugepages nr_hw_queues \
    nr_requests numa_balancing numa_node online optimal_io_size optmem_max partition physical_block_size \
    physical_package_id queue_count raid_disks read_ahead_kb rmem_max rotational scaling_max_freq \
    scaling_min_freq shared_cpu_list shared_cpu_map size smp_affinity smp_affinity_list start \
    tcp_mtu_probing tcp_rmem tcp_wmem thread_siblings thread_siblings_list total_bytes uid_map vendor \
    wmem_max zone_reclaim_mode";

/// A file of this name and with this text may be in a capture.
pub(super) fn passes(name: &str, text: &str) -> bool {
    is_among(WORDS, name) || is_among(FIGURES, name) && text.split(is_between).all(is_figure)
}

/// It is one of these words.
pub(super) fn is_among(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|one| one == word)
}

/// A number, a mask or an address in digits: `0-3`, `0x15b3`, `32K`, `254:0`; `max` where there is no limit.
pub(super) fn is_figure(word: &str) -> bool {
    let digits = word.trim_end_matches(['K', 'M', 'G']);
    word == "max" || digits.bytes().all(|byte| byte.is_ascii_hexdigit() || b"x:.-+/%".contains(&byte))
}

/// Between two words. Some drivers end a value with zero bytes.
pub(super) fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | '=' | '\0')
}
