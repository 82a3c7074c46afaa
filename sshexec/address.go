package sshexec

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ParseAddress checks HOST:PORT and gives its canonical form: host in lower
// case without a trailing dot, port in decimal. Numeric-looking names (0x7f.1,
// 127.1, 2130706433), zones and mapped IPv4 addresses are refused, whatever the
// resolver would make of them. Every error is a *RequestError invalid_request.
func ParseAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", invalid("address is not HOST:PORT")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", invalid("address has no plain port")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || ip.Is4In6() {
			return "", invalid("address has a zone or is a mapped IPv4 address")
		}
		return net.JoinHostPort(ip.String(), port), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !hostName(host) {
		return "", invalid("address names no host")
	}
	return net.JoinHostPort(host, port), nil
}

// hostName accepts ASCII host names (RFC 1123, and "_") whose last label is no number.
func hostName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		if strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9'
}

// guard decides which addresses may be connected to.
type guard struct{ allow []netip.Prefix }

// newGuard reads CIDRs. A prefix with host bits or of mapped addresses is refused.
func newGuard(cidr []string) (guard, error) {
	var g guard
	for _, c := range cidr {
		p, err := netip.ParsePrefix(c)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return guard{}, invalid("allow-network: %q is no CIDR", c)
		}
		g.allow = append(g.allow, p)
	}
	return g, nil
}

// ok: public addresses, and those of an allowed network. Metadata services,
// multicast and the unspecified address never.
func (g guard) ok(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	switch {
	case !a.IsValid() || never(a):
		return false
	case within(a, g.allow):
		return true
	}
	return !within(a, special) && (a.Is4() || public6.Contains(a))
}

// special are networks that are nobody's public host (IANA special-purpose registries,
// RFC 6890 and successors), or that lead to another address inside (6to4, Teredo, NAT64).
// A mapped IPv4 address is judged as the IPv4 address it is. httpexec has the same lists,
// since neither executor may import the other; a test of the gateway compares them.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
	"2001::/32", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20",
	"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// public6 is all of IPv6 that is given out as global unicast.
var public6 = netip.MustParsePrefix("2000::/3")

// services are the clouds' instance services: they hand out credentials to whoever
// asks, so no rule opens them (AWS, GCP, Azure and others; ECS, EKS; the VPC's
// resolver; Azure's host agent; Alibaba; Oracle).
var services = prefixes(
	"169.254.169.254/32", "169.254.169.253/32", "169.254.170.2/32", "169.254.170.23/32", "168.63.129.16/32", "100.100.100.200/32",
	"192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
)

// never is what no rule opens: instance services, also by way of NAT64, 6to4 or an
// IPv4-compatible address, multicast, and the unspecified address, which is this
// machine to connect(2).
func never(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsMulticast() || within(a, services) {
		return true
	}
	b := a.As16()
	switch {
	case a.Is4():
		return false
	case within(a, prefixes("64:ff9b::/96", "64:ff9b:1::/48", "::/96")):
		return within(netip.AddrFrom4([4]byte(b[12:])), services)
	case within(a, prefixes("2002::/16")):
		return within(netip.AddrFrom4([4]byte(b[2:6])), services)
	}
	return false
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}
