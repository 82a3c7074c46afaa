package peer

import (
	"path"
	"slices"
	"strings"
)

// keyNames are files that programs keep keys and tokens in.
var keyNames = []string{".netrc", "_netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".dockercfg", ".env",
	"application_default_credentials.json", "credentials.json", "credentials.toml", "service-account.json", "hosts.yml", "kubeconfig"}

// keyFile says whether a path looks like a file with a key or a token in it.
func keyFile(p string) bool {
	p = strings.TrimSuffix(p, " (deleted)")
	name, dir := path.Base(p), path.Base(path.Dir(p))
	switch {
	case strings.HasSuffix(name, ".pub"), name == "known_hosts":
		return false
	case strings.HasPrefix(name, "id_"), slices.Contains(keyNames, name):
		return true
	case dir == ".aws" || dir == ".azure" || dir == ".kube" || dir == ".docker":
		return name == "credentials" || name == "config" || name == "config.json" || strings.Contains(name, "token")
	}
	return slices.Contains([]string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"}, path.Ext(name))
}

// agents and helpers are programs that hold or hand out credentials.
var (
	agents  = []string{"ssh-agent", "gpg-agent", "gnome-keyring-d", "gcr-ssh-agent"}
	helpers = []string{"keepassxc", "1password", "op", "bw", "pass", "secret-tool", "aws-vault", "kwalletd5", "kwalletd6", "seahorse"}
)

// socketClass is the class of a local socket, by its path and the names of those
// who hold its other end.
func socketClass(address string, agentPaths []string, holders []string) string {
	name, dir := path.Base(address), path.Dir(address)
	switch {
	case address != "" && slices.Contains(agentPaths, address),
		strings.HasPrefix(name, "agent.") && strings.Contains(dir, "/ssh-"), name == "S.gpg-agent.ssh", name == "ssh-agent.sock",
		strings.HasSuffix(dir, "/keyring") && name == "ssh", slices.ContainsFunc(holders, func(h string) bool { return slices.Contains(agents, h) }):
		return ClassSSHAgent
	case path.Base(dir) == ".ssh", strings.Contains(dir, "/.ssh/"), strings.HasPrefix(name, "ssh_mux_"), strings.HasPrefix(name, "ssh-mux"),
		strings.HasPrefix(name, "cm-") || strings.HasPrefix(name, "mux-") || strings.HasPrefix(name, "control-"), slices.Contains(holders, "ssh"):
		return ClassSSHControl
	case strings.Contains(dir, "git-credential-cache"), strings.Contains(dir, "/git/credential"), strings.HasPrefix(name, "S.gpg-agent"),
		strings.HasSuffix(dir, "/keyring"), slices.ContainsFunc(holders, func(h string) bool {
			return slices.Contains(helpers, h) || strings.HasPrefix(h, "git-credential") || strings.HasPrefix(h, "docker-credent")
		}):
		return ClassHelper
	}
	return ClassLocal
}
