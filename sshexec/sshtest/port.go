package sshtest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort is one of loopback for a server of its own process, that was free a moment ago. It is below those that the
// kernel gives away by itself: a connection or a listener of another test would get one of these until the server takes it.
func FreePort() (string, error) {
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("find a port: a thousand are taken")
}
