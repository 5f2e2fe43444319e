package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/store"
)

// The files of a data directory that belong to a server.
const (
	socketFile = "perdure.sock"
	tokenFile  = "token"
)

// closeTimeout is how long requests in work may take when a server has stopped.
const closeTimeout = 5 * time.Second

// serveDrain is how long calls may settle when a server stops (RC11).
const serveDrain = 10 * time.Second

// serve holds a data directory and answers requests on an address and on the directory's socket, until ctx ends.
func serve(ctx context.Context, s cli.Serving) (err error) {
	if err := checkAddr(s); err != nil {
		return err
	}
	st, err := openStore(ctx, cli.Opening{Access: cli.Writing, Dir: s.Dir})
	if err != nil {
		return err // before the address: another server of this directory has that, too
	}
	listener, err := listen(s)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	closing := func() error { return ignoreClosed(listener.Close()) } // until the engine's door has it
	eng, err := newEngine(ctx, cli.Opening{Access: cli.Writing, Dir: s.Dir, AllowShell: s.AllowShell, AskModels: true, Serve: true, Log: s.Log}, st)
	if err != nil {
		return errors.Join(err, st.Close(), closing())
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	token, err := readToken(s.Dir)
	if err != nil {
		return errors.Join(err, closing())
	}
	eng.door.add(listener, api.Config{Token: token, Disclosure: api.Disclosure(s.Disclosure)})
	s.Ready(cli.Served{URL: "http://" + listener.Addr().String(), Socket: eng.door.socket, TokenFile: filepath.Join(s.Dir, tokenFile)})
	return eng.Run(ctx)
}

// handedOver reports whether whoever started this process has opened the socket to serve on (LISTEN_FDS of systemd).
func handedOver() bool {
	pid := os.Getenv("LISTEN_PID")
	return os.Getenv("LISTEN_FDS") == "1" && (pid == "" || pid == strconv.Itoa(os.Getpid()))
}

// checkAddr refuses an address that is none, and one that others can reach where that is not meant.
func checkAddr(s cli.Serving) error {
	if handedOver() {
		return nil // whoever opened it meant it
	}
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return fmt.Errorf("%w address %q: want HOST:PORT", perdure.Invalid, s.Addr)
	}
	if !s.Expose && !isLoopback(host) {
		return fmt.Errorf("%w address %q: other machines can reach it; --expose says that this is meant", perdure.Invalid, s.Addr)
	}
	return nil
}

// listen opens the address, or takes the socket that was handed over, so that nobody is turned away while one server
// follows another. Commands that run here are not told of it.
func listen(s cli.Serving) (net.Listener, error) {
	if handedOver() {
		const first = 3 // SD_LISTEN_FDS_START of sd_listen_fds(3)
		file := os.NewFile(first, "listener")
		listener, err := net.FileListener(file)
		if err != nil {
			err = fmt.Errorf("%w: LISTEN_FDS is set, and descriptor %d is no socket to serve on: %w", perdure.Invalid, first, err)
		}
		return listener, errors.Join(err, file.Close(), os.Unsetenv("LISTEN_FDS"), os.Unsetenv("LISTEN_PID"))
	}
	listener, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("%w: listen: %w", perdure.Unavailable, err)
	}
	return listener, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// readToken reads the token of a data directory, or makes one. Whoever has it may do everything.
func readToken(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil && len(strings.TrimSpace(string(text))) >= 32:
		return strings.TrimSpace(string(text)), nil
	case err == nil:
		return "", fmt.Errorf("%w token in %s: it is shorter than 32 characters; remove the file for a new one", perdure.Invalid, path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the token: %w", err)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	token := "perdure_" + base64.RawURLEncoding.EncodeToString(random[:])
	fresh := path + ".new" // whoever dies in the middle leaves no half a token where it is read
	err = os.WriteFile(fresh, []byte(token+"\n"), 0o600)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return token, nil
}

// door answers requests for an engine, on listeners, while the engine runs.
type door struct {
	engine engine.Engine
	ended  chan struct{} // closed when the engine's Run has returned
	dir    string
	keys   *keys
	log    *slog.Logger
	socket string // path; empty: there is none
	open   []opening
}

func newDoor(eng engine.Engine, st store.Store, dir string, log *slog.Logger) *door {
	return &door{engine: eng, ended: make(chan struct{}), dir: dir, keys: &keys{store: st, log: log}, log: log}
}

// opening is one listener with what answers on it.
type opening struct {
	listener net.Listener
	api      func() (*api.API, error) // made once, for the first request: until then a start does not wait for it
	server   *http.Server
}

// add serves the API of the engine on a listener, as soon as that runs. cfg says who may ask.
func (d *door) add(listener net.Listener, cfg api.Config) {
	cfg.Engine, cfg.Keys, cfg.Log, cfg.Version = d.engine, d.keys, d.log, version().Version
	made := sync.OnceValues(func() (*api.API, error) { return api.New(cfg) })
	answer := func(w http.ResponseWriter, r *http.Request) {
		a, err := made()
		if err != nil {
			d.log.Error("the API cannot be served", "error", err)
			http.Error(w, "the API cannot be served", http.StatusInternalServerError)
			return
		}
		a.ServeHTTP(w, r)
	}
	d.open = append(d.open, opening{listener: listener, api: made, server: api.NewServer(http.HandlerFunc(answer), d.log)})
}

// openSocket serves the API on the directory's socket, to its owner only. A directory that can have none is served
// without: other commands then read the store, and those that write wait until it is free.
func (d *door) openSocket() error {
	path := filepath.Join(d.dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // nobody holds it: we hold the directory
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		d.log.Warn("the data directory has no socket: other commands cannot ask this process", "error", err)
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	d.socket = path
	d.add(listener, api.Config{Local: true})
	return nil
}

// carry runs the engine and answers requests for it, until ctx ends, and returns when both have ended.
func (d *door) carry(ctx context.Context, run func(context.Context) error) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	var served, pruned error
	group.Go(func() { served = d.run(work, stop) })
	group.Go(func() { pruned = d.keys.Run(work) })
	err := run(work)
	close(d.ended)
	stop(nil)
	group.Wait()
	return errors.Join(err, served, pruned)
}

// run serves until ctx ends. Then writes are refused and streams are told, while the engine lets its work settle;
// when that has ended, so do the servers. A listener that fails ends everything by fail.
func (d *door) run(ctx context.Context, fail context.CancelCauseFunc) error {
	var group sync.WaitGroup
	failures := make([]error, len(d.open))
	for i, o := range d.open {
		group.Go(func() {
			if err := ignoreClosed(o.server.Serve(o.listener)); err != nil {
				failures[i] = fmt.Errorf("serve %s: %w", o.listener.Addr(), err)
				fail(failures[i])
			}
		})
	}
	<-ctx.Done()
	for _, o := range d.open {
		if a, err := o.api(); err == nil {
			a.Drain()
		}
	}
	<-d.ended
	err := d.close()
	group.Wait()
	return errors.Join(append(failures, err)...)
}

// close ends the servers: requests in work have a moment, and then their connections are closed.
func (d *door) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, o := range d.open {
		if err := o.server.Shutdown(ctx); err != nil {
			errs = append(errs, ignoreClosed(o.server.Close()))
		}
		errs = append(errs, ignoreClosed(o.listener.Close())) // one that never served is closed here
	}
	d.open = nil
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
