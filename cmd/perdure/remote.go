package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
)

// probeTime is how long whoever holds a data directory may take to answer before it counts as gone.
const probeTime = 5 * time.Second

// far is an engine in another process, which does the work. It is safe for concurrent use.
type far struct {
	*remote.Engine

	mu   sync.Mutex
	used map[perdure.SessionID]string // guarded by mu; models that sessions are to ask from now on
}

var _ cli.Engine = (*far)(nil)

// socketOutage is how long a command waits for whoever held the data directory to come back. A server that is
// started anew is there in a moment; a `run` that came to its end is not.
const socketOutage = 20 * time.Second

// newFar makes what a command needs of an engine that is far away.
func newFar(eng *remote.Engine) *far { return &far{Engine: eng, used: map[perdure.SessionID]string{}} }

// dial reaches the server that was named, or else, for what writes, whoever holds the data directory. Neither: the
// engine is nil. What reads has a reader instead.
func dial(ctx context.Context, o cli.Opening) (cli.Engine, error) {
	cfg, socket := whom(o)
	if o.Server == "" {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) || o.Access != cli.Writing {
			return nil, nil
		}
	}
	eng, err := remote.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	if o.Server == "" && !answers(ctx, cfg) {
		return nil, nil // it was left behind by a process that died
	}
	if err := checkPlace(ctx, o, eng); err != nil {
		eng.Close()
		return nil, err
	}
	return newFar(eng), nil
}

// whom is the server that an opening means: the one that is named, or whoever answers on the socket of the data directory.
func whom(o cli.Opening) (cfg remote.Config, socket string) {
	socket = filepath.Join(o.Dir, socketFile)
	switch {
	case o.Server == "":
		return remote.Config{URL: "unix://" + socket, Actor: "operator", Outage: socketOutage}, socket
	case strings.HasPrefix(o.Server, "unix://"): // a socket takes no token, and lets its owner say who acts
		return remote.Config{URL: o.Server, Actor: "operator"}, socket
	}
	return remote.Config{URL: o.Server, Token: os.Getenv("PERDURE_TOKEN")}, socket
}

// answers reports whether somebody is behind a socket.
func answers(ctx context.Context, cfg remote.Config) bool {
	cfg.Retry = -1
	eng, err := remote.New(cfg)
	if err != nil {
		return false
	}
	defer eng.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err = eng.Sessions(ctx, 1)
	return err == nil
}

// Run waits: the work is done where the engine is.
func (f *far) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// CheckModel implements cli.Engine. The keys of providers are the server's business.
func (f *far) CheckModel(name string) (string, error) {
	t, err := readTarget(name)
	if err != nil {
		return "", err
	}
	if t.provider == providerScripted {
		if _, err := load(t.name); err != nil {
			return "", err
		}
	}
	return t.String(), nil
}

// UseModel implements cli.Engine.
func (f *far) UseModel(id perdure.SessionID, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[id] = name
}

// Send hands a message over, with the model that is to answer it.
func (f *far) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) error {
	f.mu.Lock()
	if name, ok := f.used[id]; ok && message.Model == "" {
		message.Model = name
	}
	f.mu.Unlock()
	return f.Engine.Send(ctx, id, message)
}

// Close implements cli.Engine.
func (f *far) Close() error {
	f.Engine.Close()
	return nil
}

var _ engine.Engine = (*far)(nil)
