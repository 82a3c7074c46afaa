package doctor

import (
	"fmt"
	"strings"
)

// Machine is what the kernel offers. The zero Machine offers nothing.
type Machine struct {
	Pidfd       bool     // pidfd_open
	PeerPidfd   bool     // SO_PEERPIDFD: a peer's pidfd comes from the kernel
	NotConfined []string // what `sp run` can't keep from an agent here
	ASLR        int      // kernel.randomize_va_space
	Yama        int      // kernel.yama.ptrace_scope; -1: there is none
	CorePattern string   // kernel.core_pattern
	Umask       int      // of this process; -1: unknown
	ClockSynced bool     // by the kernel's own account
	ClockKnown  bool
}

// Findings judges a machine.
func (m Machine) Findings() []Finding {
	return []Finding{m.pidfd(), m.landlock(), m.aslr(), m.yama(), m.core(), m.umask(), m.clock()}
}

func (m Machine) pidfd() Finding {
	const check = "kernel.pidfd"
	switch {
	case !m.Pidfd:
		return Fault(check, "use Linux 5.3 or later; in a container allow pidfd_open", "the kernel gives no pidfds: agents can't be told apart, and none is let in")
	case !m.PeerPidfd:
		return Note(check, "use Linux 6.5 or later", "the kernel has no SO_PEERPIDFD: every agent's identity is weak, so each of its calls is asked for")
	}
	return Fine(check, "agents are identified by the kernel (SO_PEERPIDFD)")
}

func (m Machine) landlock() Finding {
	const check = "kernel.landlock"
	if len(m.NotConfined) == 0 {
		return Fine(check, "`sp run` can confine an agent in full")
	}
	return Note(check, "use Linux 6.12 or later with landlock among the kernel's lsm=; until then another uid for the agent does it", "`sp run` can't keep an agent from: %s", strings.Join(m.NotConfined, "; "))
}

func (m Machine) aslr() Finding {
	const check = "kernel.aslr"
	if m.ASLR == 0 {
		return Fault(check, "sysctl kernel.randomize_va_space=2, as root", "addresses are not randomized: every agent's identity is weak, and memory errors are easier to use")
	}
	return Fine(check, "addresses are randomized")
}

func (m Machine) yama() Finding {
	const check = "kernel.yama"
	if m.Yama < 1 {
		return Note(check, "sysctl kernel.yama.ptrace_scope=1, as root", "any program of yours may trace any other, `sp` while you type the passphrase among them (spd itself is closed to tracing)")
	}
	return Fine(check, "ptrace_scope is %d", m.Yama)
}

// core looks at where the kernel sends dumps: spd makes none, agents and sp may.
func (m Machine) core() Finding {
	const check = "kernel.core"
	if rest, piped := strings.CutPrefix(m.CorePattern, "|"); piped {
		program, _, _ := strings.Cut(rest, " ")
		return Note(check, "look at who may read what it keeps, or `ulimit -c 0` for agents", "dumps of crashed programs go to %s; spd makes none", program)
	}
	return Fine(check, "dumps, where there are any, stay with the crashed program; spd makes none")
}

func (m Machine) umask() Finding {
	const check = "umask"
	switch {
	case m.Umask < 0:
		return Note(check, "look at `umask`", "the umask is not known here")
	case m.Umask&0o022 != 0o022:
		return Fault(check, "umask 077 in your shell's profile (022 at least)", "files that you make can be changed by others (umask %04o): a reader's identity or a token in a file, too", m.Umask)
	case m.Umask&0o044 != 0o044:
		return Note(check, "umask 077 where you write a reader's identity or a token to a file; the gateway's own files are private whatever it is", "files that you make can be read by others (umask %04o)", m.Umask)
	}
	return Fine(check, "%s", fmt.Sprintf("%04o", m.Umask))
}

func (m Machine) clock() Finding {
	const check = "clock"
	switch {
	case !m.ClockKnown:
		return Note(check, "look at `timedatectl`", "whether the clock is right is not known here")
	case !m.ClockSynced:
		return Note(check, "timedatectl set-ntp true, or chrony", "nothing keeps the clock right, by the kernel's account: times in the log, ends of grants and signatures of requests depend on it")
	}
	return Fine(check, "it is kept right")
}
