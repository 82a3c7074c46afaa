// Package console is the operator's web console: one more client of the operators' door, over an in-process transport. It
// has no rule of its own. What it adds is the way from a browser's tab to that door: which requests are a tab's, and that a
// tab can read and take away, while whatever gives authority carries a proof that the door checks.
//
// There is no cookie. `sp console` is told a URL with a token in its fragment, which no request and no Referer carries. The
// first page that shows it gets a session of its own for it, kept in its memory and sent in a header.
package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// Config is what a console is made from.
type Config struct {
	Door func(tab string) http.Handler // the operators' door, as one tab speaks to it
	Gone func(tab string)              // a tab speaks no more; nil: nobody wants to know

	Ticketed http.Handler // the same door, for the two verbs of a ticket's page, which has no tab; nil: there are no tickets
}

// Server answers the browser's tabs.
type Server struct {
	cfg  Config
	on   *Listener
	tabs *tabs
}

// maxConns bounds connections, in all: anybody on this machine may open some.
const maxConns = 256

// New makes a console on l.
func New(l *Listener, c Config) *Server {
	if c.Gone == nil {
		c.Gone = func(string) {}
	}
	if c.Ticketed == nil {
		c.Ticketed = http.NotFoundHandler()
	}
	return &Server{cfg: c, on: l, tabs: newTabs(c.Gone)}
}

// URL is where the console lies, without a token.
func (s *Server) URL() string { return s.on.URL() }

// Open makes the URL for one new tab, which is named tab from then on. It works once, for ten minutes.
func (s *Server) Open(tab string) string { return s.URL() + "#" + s.tabs.issue(tab) }

// Serve answers until ctx ends, then closes both addresses.
func (s *Server) Serve(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	// A browser repeats a request that a kept connection lost, a POST too. On a connection of its own nothing is repeated.
	srv.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(wait) != nil {
			srv.Close()
		}
	})
	defer stop()
	defer s.tabs.close()
	var serving errgroup.Group
	for _, l := range s.on.on {
		serving.Go(func() error {
			if err := srv.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return serving.Wait()
}
