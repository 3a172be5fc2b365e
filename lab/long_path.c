/* A long way between two network cards: what comes in at one leaves at the other after a delay, each direction by
 * itself. `lab up --rtt` builds and starts it; kernels without netem (https://man7.org/linux/man-pages/man8/tc-netem.8.html)
 * have no delay of their own.
 *
 *   long_path LEFT RIGHT DELAY_US JITTER_US LOSS_PER_BILLION RATE_MBIT QUEUE_BYTES COUNTERS
 *
 * Frames pass packet sockets, large ones as a whole (PACKET_VNET_HDR). What is lost or finds no room in the queue is
 * single segments of them: the packet is cut there, as if the card had cut it before. Order is kept. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_BYTES = 80 << 10, SOCKET_BYTES = 64 << 20 };
/* More than 10 Gb/s over 200 ms; what does not fit is counted as overrun, never lost in silence. */
static const uint64_t held_bytes_limit = 768u << 20;

struct packet {
	struct packet *next;
	uint64_t due_ns;
	uint32_t bytes;
	struct virtio_net_hdr card;
	unsigned char frame[];
};

struct direction {
	int from, to;
	uint64_t delay_ns, jitter_ns, queue_bytes;
	double loss, bytes_per_ns; /* rate 0: no bottleneck here */
	struct packet *first, *last;
	uint64_t held_bytes, last_due_ns, free_at_ns, until_loss, random;
	/* Read by the counting thread. */
	uint64_t frames, bytes, lost, queue_drops, overruns;
};

/* Where the headers of a frame are; `payload` 0: nothing that could be cut. */
struct headers {
	uint32_t transport, payload;
	int is_tcp;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* 0 to 1, neither; xorshift64* (Vigna 2016). */
static double chance(struct direction *way)
{
	way->random ^= way->random >> 12;
	way->random ^= way->random << 25;
	way->random ^= way->random >> 27;
	return ((double)((way->random * 2685821657736338717u) >> 11) + 0.5) / 9007199254740992.0;
}

/* How many segments pass until one is lost. */
static uint64_t next_loss(struct direction *way)
{
	return way->loss > 0 ? (uint64_t)(log(chance(way)) / log1p(-way->loss)) : UINT64_MAX;
}

static struct headers headers_of(const struct packet *packet)
{
	const struct ethhdr *ethernet = (const void *)packet->frame;
	const struct iphdr *ip = (const void *)(packet->frame + ETH_HLEN);
	struct headers at = { 0, 0, 0 };
	if (packet->bytes < ETH_HLEN + sizeof *ip || ethernet->h_proto != htons(ETH_P_IP) || !packet->card.gso_size)
		return at;
	at.transport = ETH_HLEN + ip->ihl * 4u;
	at.is_tcp = ip->protocol == IPPROTO_TCP;
	if (at.is_tcp && packet->bytes > at.transport + sizeof(struct tcphdr))
		at.payload = at.transport + ((const struct tcphdr *)(packet->frame + at.transport))->doff * 4u;
	else if (ip->protocol == IPPROTO_UDP)
		at.payload = at.transport + sizeof(struct udphdr);
	if (at.payload >= packet->bytes)
		at.payload = 0;
	return at;
}

static uint64_t segments_of(const struct packet *packet, struct headers at)
{
	return at.payload ? (packet->bytes - at.payload + packet->card.gso_size - 1u) / packet->card.gso_size : 1;
}

static uint32_t sum_words(const void *bytes, uint32_t count)
{
	uint32_t sum = 0;
	for (const uint16_t *word = bytes; count >= 2; count -= 2)
		sum += *word++;
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* A new packet of `count` segments from the `from`th on. */
static struct packet *part_of(const struct packet *whole, struct headers at, uint64_t from, uint64_t count)
{
	uint32_t size = whole->card.gso_size, all = whole->bytes - at.payload;
	uint32_t begin = (uint32_t)from * size, end = begin + (uint32_t)count * size;
	int is_last;
	if (end > all)
		end = all;
	is_last = end == all;
	struct packet *part = malloc(sizeof *part + at.payload + (end - begin));
	if (!part)
		fail("long_path: no memory");
	part->card = whole->card;
	part->bytes = at.payload + (end - begin);
	memcpy(part->frame, whole->frame, at.payload);
	memcpy(part->frame + at.payload, whole->frame + at.payload + begin, end - begin);
	struct iphdr *ip = (void *)(part->frame + ETH_HLEN);
	uint16_t *check, length = (uint16_t)(part->bytes - at.transport);
	ip->tot_len = htons((uint16_t)(part->bytes - ETH_HLEN));
	ip->id = htons((uint16_t)(ntohs(ip->id) + from));
	ip->check = 0;
	ip->check = (uint16_t)~folded(sum_words(ip, ip->ihl * 4u));
	if (at.is_tcp) {
		struct tcphdr *tcp = (void *)(part->frame + at.transport);
		tcp->seq = htonl(ntohl(tcp->seq) + begin);
		tcp->cwr = from ? 0 : tcp->cwr;
		if (!is_last)
			tcp->psh = tcp->fin = 0;
		check = &tcp->check;
	} else {
		struct udphdr *udp = (void *)(part->frame + at.transport);
		udp->len = htons(length);
		check = &udp->check;
	}
	/* The card adds the rest: this is the sum of the pseudo header, RFC 9293 section 3.1. */
	*check = folded(sum_words(&ip->saddr, 8) + htons(ip->protocol) + htons(length));
	if (part->bytes - at.payload <= size)
		part->card.gso_type = VIRTIO_NET_HDR_GSO_NONE, part->card.gso_size = 0;
	return part;
}

/* Takes a packet that no loss has hit: through the queue of the bottleneck, then under way. */
static void take(struct direction *way, struct packet *packet, uint64_t now)
{
	struct headers at = headers_of(packet);
	uint64_t segments = segments_of(packet, at);
	uint64_t wire = packet->bytes + (segments - 1) * at.payload, leaves = now;
	if (way->bytes_per_ns > 0) {
		uint64_t start = way->free_at_ns > now ? way->free_at_ns : now;
		uint64_t waiting = (uint64_t)((double)(start - now) * way->bytes_per_ns);
		uint64_t room = way->queue_bytes > waiting ? way->queue_bytes - waiting : 0;
		if (wire > room) {
			uint64_t fit = at.payload ? room / (packet->card.gso_size + at.payload) : 0;
			__atomic_fetch_add(&way->queue_drops, segments - fit, __ATOMIC_RELAXED);
			struct packet *head = fit ? part_of(packet, at, 0, fit) : NULL;
			free(packet);
			if (!head)
				return;
			packet = head;
			wire = packet->bytes + (fit - 1) * at.payload;
		}
		leaves = way->free_at_ns = start + (uint64_t)((double)wire / way->bytes_per_ns);
	}
	if (way->held_bytes + packet->bytes > held_bytes_limit) {
		__atomic_fetch_add(&way->overruns, segments, __ATOMIC_RELAXED);
		free(packet);
		return;
	}
	double shift = way->jitter_ns ? (2 * chance(way) - 1) * (double)way->jitter_ns : 0;
	packet->due_ns = leaves + (uint64_t)((double)way->delay_ns + shift);
	if (packet->due_ns < way->last_due_ns)
		packet->due_ns = way->last_due_ns;
	way->last_due_ns = packet->due_ns;
	packet->next = NULL;
	if (way->last)
		way->last->next = packet;
	else
		way->first = packet;
	way->last = packet;
	way->held_bytes += packet->bytes;
}

/* Takes out the segments that are lost. */
static void lose(struct direction *way, struct packet *packet, uint64_t now)
{
	struct headers at = headers_of(packet);
	uint64_t segments = segments_of(packet, at), from = 0;
	if (way->until_loss >= segments) {
		way->until_loss -= way->until_loss == UINT64_MAX ? 0 : segments;
		take(way, packet, now);
		return;
	}
	while (from < segments) {
		uint64_t pass = segments - from;
		if (way->until_loss < pass)
			pass = way->until_loss;
		way->until_loss -= pass;
		if (pass)
			take(way, part_of(packet, at, from, pass), now);
		from += pass;
		if (from < segments) {
			__atomic_fetch_add(&way->lost, 1, __ATOMIC_RELAXED);
			way->until_loss = next_loss(way);
			from++;
		}
	}
	free(packet);
}

static void receive_all(struct direction *way, unsigned char *scratch)
{
	for (int count = 0; count < 64; count++) {
		struct virtio_net_hdr card;
		struct iovec parts[] = { { &card, sizeof card }, { scratch, FRAME_BYTES } };
		ssize_t got = readv(way->from, parts, 2);
		if (got <= (ssize_t)sizeof card)
			return;
		uint32_t bytes = (uint32_t)got - (uint32_t)sizeof card;
		struct packet *packet = malloc(sizeof *packet + bytes);
		if (!packet)
			fail("long_path: no memory");
		packet->card = card;
		packet->bytes = bytes;
		memcpy(packet->frame, scratch, bytes);
		__atomic_fetch_add(&way->frames, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&way->bytes, bytes, __ATOMIC_RELAXED);
		lose(way, packet, now_ns());
	}
}

/* False: the other card has no room now. */
static int send_due(struct direction *way)
{
	for (int count = 0; way->first && way->first->due_ns <= now_ns() && count < 64; count++) {
		struct packet *packet = way->first;
		struct iovec parts[] = { { &packet->card, sizeof packet->card }, { packet->frame, packet->bytes } };
		if (writev(way->to, parts, 2) < 0) {
			if (errno == ENOBUFS || errno == EAGAIN)
				return 0;
			__atomic_fetch_add(&way->overruns, 1, __ATOMIC_RELAXED);
		}
		way->first = packet->next;
		if (!way->first)
			way->last = NULL;
		way->held_bytes -= packet->bytes;
		free(packet);
	}
	return 1;
}

static void *carry(void *argument)
{
	struct direction *way = argument;
	unsigned char *scratch = malloc(FRAME_BYTES);
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		struct timespec wait = { 1, 0 };
		uint64_t now = now_ns();
		if (!send_due(way))
			wait = (struct timespec){ 0, 30000 };
		else if (way->first) {
			uint64_t left = way->first->due_ns > now ? way->first->due_ns - now : 0;
			wait = (struct timespec){ (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
		}
		struct pollfd from = { way->from, POLLIN, 0 };
		if (ppoll(&from, 1, &wait, NULL) > 0)
			receive_all(way, scratch);
	}
	return NULL;
}

static int open_card(const char *name)
{
	int one = 1, bytes = SOCKET_BYTES;
	int file = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	at.sll_ifindex = (int)if_nametoindex(name);
	if (file < 0 || !at.sll_ifindex)
		fail(name);
	if (setsockopt(file, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one))
		fail("PACKET_VNET_HDR");
	if (setsockopt(file, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one))
		fail("PACKET_IGNORE_OUTGOING");
	setsockopt(file, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
	setsockopt(file, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
	setsockopt(file, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
	if (bind(file, (struct sockaddr *)&at, sizeof at))
		fail(name);
	return file;
}

/* What the socket had no room for, because nobody read it in time; the kernel counts from the last look on. */
static uint64_t overruns_of(int file)
{
	struct tpacket_stats seen;
	socklen_t bytes = sizeof seen;
	return getsockopt(file, SOL_PACKET, PACKET_STATISTICS, &seen, &bytes) ? 0 : seen.tp_drops;
}

static void count(const char *path, struct direction *ways)
{
	static const char *const names[] = { "there", "back" };
	char text[512];
	int used = 0, file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0)
		return;
	for (int i = 0; i < 2; i++) {
		__atomic_fetch_add(&ways[i].overruns, overruns_of(ways[i].from), __ATOMIC_RELAXED);
		used += snprintf(text + used, sizeof text - (size_t)used,
			"%s frames=%llu bytes=%llu lost=%llu queue_drops=%llu overruns=%llu\n", names[i],
			(unsigned long long)__atomic_load_n(&ways[i].frames, __ATOMIC_RELAXED),
			(unsigned long long)__atomic_load_n(&ways[i].bytes, __ATOMIC_RELAXED),
			(unsigned long long)__atomic_load_n(&ways[i].lost, __ATOMIC_RELAXED),
			(unsigned long long)__atomic_load_n(&ways[i].queue_drops, __ATOMIC_RELAXED),
			(unsigned long long)__atomic_load_n(&ways[i].overruns, __ATOMIC_RELAXED));
	}
	if (write(file, text, (size_t)used) < 0)
		perror(path);
	close(file);
}

int main(int words, char **word)
{
	static struct direction ways[2];
	struct timespec interval = { 0, 500000000 };
	if (words != 9) {
		fputs("long_path LEFT RIGHT DELAY_US JITTER_US LOSS_PER_BILLION RATE_MBIT QUEUE_BYTES COUNTERS\n", stderr);
		return 2;
	}
	setpriority(PRIO_PROCESS, 0, -20);
	int left = open_card(word[1]), right = open_card(word[2]);
	for (int i = 0; i < 2; i++) {
		struct direction *way = &ways[i];
		way->from = i ? right : left;
		way->to = i ? left : right;
		way->delay_ns = strtoull(word[3], NULL, 10) * 1000u;
		way->jitter_ns = strtoull(word[4], NULL, 10) * 1000u;
		way->loss = strtod(word[5], NULL) / 1e9;
		way->bytes_per_ns = strtod(word[6], NULL) / 8000.0;
		way->queue_bytes = strtoull(word[7], NULL, 10);
		if (getrandom(&way->random, sizeof way->random, 0) < 0 || !way->random)
			way->random = now_ns() | 1;
		way->until_loss = next_loss(way);
		pthread_t thread;
		if (pthread_create(&thread, NULL, carry, way))
			fail("long_path: no thread");
	}
	for (;;) {
		count(word[8], ways);
		nanosleep(&interval, NULL);
	}
}
