package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/BurntSushi/toml"

	"sallyport/cmd/internal/release"
	"sallyport/gateway"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// workFactor is scrypt's log2 N for a new vault's passphrase slot: 256 MiB and about a second a guess.
const workFactor = 18

// serve is the daemon: hardened first, then opened, then listening. uid is whom it serves from a user of its own; 0: the
// user who started it. web says whether there is a web console.
func serve(ctx context.Context, uid uint32, served bool, web gateway.Console) error {
	if served {
		if err := hardenServed(uid); err != nil {
			return err
		}
	}
	if err := harden(); err != nil {
		return err
	}
	h, err := home.Find(os.Getenv)
	if err != nil {
		return err
	}
	if served {
		h = h.Served()
	}
	set, err := readSettings(h.Settings())
	if err != nil {
		return err
	}
	version := release.This().Version
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: set.LogLevel}))
	g, err := gateway.New(ctx, gateway.Config{Home: h, Version: version, ServeUID: uid, WorkFactor: workFactor, Ours: ours(), Console: web, Log: log})
	if err != nil {
		return err
	}
	agents, operators, err := listen(h)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	log.Info("listening", "agents", h.AgentSocket(), "version", version, "pid", os.Getpid())
	defer lockOnHangup(ctx, g, log)()
	go giveBack(ctx)
	return g.Serve(ctx, agents, operators)
}

// lockOnHangup locks the vault on SIGHUP, until the func it returns is called.
func lockOnHangup(ctx context.Context, g *gateway.Gateway, log *slog.Logger) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	var end sync.WaitGroup
	end.Go(func() {
		for range hangup {
			if err := g.Lock(ctx, "hangup"); err != nil {
				log.Error("lock on SIGHUP", "error", err)
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		close(hangup)
		end.Wait()
	}
}

// listen opens both doors and says where operators find theirs.
func listen(h home.Home) (agents *net.UnixListener, operators net.Listener, err error) {
	atPath := peer.Listen
	if h.IsServed() {
		atPath = peer.ListenGroup
	}
	if agents, err = atPath(h.AgentSocket()); err != nil {
		return nil, nil, err
	}
	op, addr, err := peer.ListenAbstract()
	if errors.Is(err, peer.ErrUnsupported) {
		addr = h.OperatorSocket()
		op, err = atPath(addr)
	}
	if err == nil {
		if err = h.PublishOperator(addr); err == nil {
			return agents, op, nil
		}
		op.Close()
	}
	agents.Close()
	return nil, nil, err
}

// settings is spd.toml. Nothing that decides authority is read from it: those are sealed in the vault.
type settings struct {
	LogLevel slog.Level `toml:"log_level"`
}

func readSettings(path string) (settings, error) {
	var s settings
	md, err := toml.DecodeFile(path, &s)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return settings{}, nil
	case err != nil:
		return s, fmt.Errorf("read %s: %w", path, err)
	case len(md.Undecoded()) > 0:
		return s, fmt.Errorf("read %s: unknown key %q; it takes log_level alone, and authority is never set there", path, md.Undecoded()[0])
	}
	return s, nil
}
