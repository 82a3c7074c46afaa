package sshexec

import (
	"net/netip"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"web.example:22": "web.example:22", "WEB.Example.:2222": "web.example:2222", "10.0.0.1:22": "10.0.0.1:22",
		"[2001:DB8:0::1]:22": "[2001:db8::1]:22", "localhost:65535": "localhost:65535", "a_b.example:1": "a_b.example:1",
	} {
		got, err := ParseAddress(in)
		if err != nil || got != want {
			t.Errorf("%s: %q %v", in, got, err)
		}
		if again, err := ParseAddress(got); err != nil || again != got {
			t.Errorf("%s: not canonical: %q", in, again)
		}
	}
	for _, in := range []string{
		"", "web.example", ":22", "web.example:", "web.example:0", "web.example:022", "web.example:65536", "web.example:+22", "web.example:ssh",
		"0x7f.1:22", "127.1:22", "2130706433:22", "0177.0.0.1:22", "1.2.3.4.5:22", "a.0x10:22", "[::ffff:10.0.0.1]:22", "[fe80::1%eth0]:22",
		"user@web.example:22", "web example:22", "web.example/:22", "wéb.example:22", "-oProxyCommand:22", "a..b:22", "web.example\x00:22", "..:22",
	} {
		if got, err := ParseAddress(in); err == nil {
			t.Errorf("%q is taken as %q", in, got)
		}
	}
}

func TestGuard(t *testing.T) {
	none, err := newGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := newGuard([]string{"0.0.0.0/0", "::/0"})
	if err != nil {
		t.Fatal(err)
	}
	lan, err := newGuard([]string{"10.0.0.0/8", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	// Which of none, lan, all lets the address pass.
	for addr, want := range map[string][3]bool{
		"1.1.1.1": {true, true, true}, "2606:4700::1111": {true, true, true}, "::ffff:1.1.1.1": {true, true, true},
		"10.1.2.3": {false, true, true}, "::ffff:10.1.2.3": {false, true, true}, "fd12::1": {false, true, true},
		"127.0.0.1": {false, false, true}, "::1": {false, false, true}, "192.168.0.1": {false, false, true},
		"172.16.0.1": {false, false, true}, "172.32.0.1": {true, true, true}, "100.64.0.1": {false, false, true},
		"169.254.1.1": {false, false, true}, "fe80::1": {false, false, true}, "fe80::1%eth0": {false, false, true},
		"192.0.0.8": {false, false, true}, "192.0.2.1": {false, false, true}, "198.18.0.1": {false, false, true},
		"198.51.100.1": {false, false, true}, "203.0.113.1": {false, false, true}, "240.0.0.1": {false, false, true},
		"255.255.255.255": {false, false, true}, "0.1.2.3": {false, false, true}, "fec0::1": {false, false, true},
		"64:ff9b::a01:203": {false, false, true}, "64:ff9b:1::1": {false, false, true}, "2002:a00:1::": {false, false, true},
		"2001::1": {false, false, true}, "100::1": {false, false, true}, "2001:db8::1": {false, false, true},
		"::7f00:1": {false, false, true}, "2001:10::1": {false, false, true}, "2001:20::1": {false, false, true},
		"4000::1": {false, false, true}, "5f00::1": {false, false, true}, "1::1": {false, false, true}, "2a00::1": {true, true, true},
		"0.0.0.0": {}, "::": {}, "224.0.0.1": {}, "ff02::1": {}, "169.254.169.254": {}, "169.254.169.253": {}, "fd00:ec2::254": {},
		"100.100.100.200": {}, "168.63.129.16": {}, "::ffff:169.254.169.254": {}, "64:ff9b::a9fe:a9fe": {},
		"2002:a9fe:a9fe::1": {}, "::a9fe:a9fe": {},
	} {
		a := netip.MustParseAddr(addr)
		if got := [3]bool{none.ok(a), lan.ok(a), all.ok(a)}; got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	if all.ok(netip.Addr{}) {
		t.Error("the zero address passes")
	}
	for _, bad := range []string{"10.0.0.1", "10.0.0.1/8", "::ffff:10.0.0.0/104", "x", ""} {
		if _, err := newGuard([]string{bad}); err == nil {
			t.Errorf("%q is taken as a CIDR", bad)
		}
	}
}
