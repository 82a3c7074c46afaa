package sshexec

import (
	"net"
	"net/netip"
	"slices"
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
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || metadata(a) {
		return false
	}
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	return !reserved(a)
}

// metadata reports addresses where clouds hand out credentials, also inside a
// NAT64, 6to4 or IPv4-compatible address.
func metadata(a netip.Addr) bool {
	switch a.String() {
	case "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", // AWS, ECS, EKS, VPC resolver; most clouds
		"100.100.100.200", "168.63.129.16", "192.0.0.192", // Alibaba, Azure, Oracle
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254": // AWS, EKS, Google
		return true
	}
	if a.Is4() {
		return false
	}
	b := a.As16()
	switch {
	case within(a, "64:ff9b::/96"), within(a, "64:ff9b:1::/48"), within(a, "::/96"):
		return metadata(netip.AddrFrom4([4]byte(b[12:16])))
	case within(a, "2002::/16"):
		return metadata(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return false
}

func within(a netip.Addr, prefix string) bool { return netip.MustParsePrefix(prefix).Contains(a) }

// reserved reports addresses that are not on the public internet (IANA special
// purpose registries, RFC 6890): netip's own predicates miss half of them.
func reserved(a netip.Addr) bool {
	nets := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32",
		"2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	}
	return slices.ContainsFunc(nets, func(n string) bool { return within(a, n) })
}
