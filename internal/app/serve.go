package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli"
)

// The files of a server in a data directory.
const (
	socketFile = "perdure.sock"
	tokenFile  = "token"
)

// serve holds a data directory and serves the API on an address and on the directory's socket,
// until ctx ends.
func (p Program) serve(ctx context.Context, s cli.ServeOptions) (err error) {
	if err := checkAddr(s); err != nil {
		return err
	}
	manager, err := findServiceManager(s.Log)
	if err != nil {
		return err
	}
	scheduler, err := p.scheduler(cli.Writing, s.Database)
	if err != nil {
		return err
	}
	st, err := openStore(ctx, cli.OpenOptions{Access: cli.Writing, Dir: s.Dir, Database: s.Database, Serve: true})
	if err != nil {
		return err // before listening: another server of this directory uses the same address
	}
	listener, err := listen(s)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	closing := func() error { return ignoreClosed(listener.Close()) } // until the door owns the listener
	told, err := observe(ctx, s)
	if err != nil {
		return errors.Join(err, st.Close(), closing())
	}
	times := timesOf(s.StopTime, true)
	defer func() { err = errors.Join(err, told.close(times.flush)) }()
	eng, err := scheduler.newEngine(ctx, cli.OpenOptions{
		Access: cli.Writing, Dir: s.Dir, Database: s.Database, SharedFiles: s.SharedFiles, AllowShell: s.AllowShell, Sandbox: s.Sandbox, Ask: s.Ask,
		Deny: s.Deny, MCP: s.MCP, AskUntrusted: s.AskUntrusted, Secrets: s.Secrets, Retention: s.Retention, AskModels: true, Serve: true,
		Disclosure: s.Disclosure, ModelOptions: s.ModelOptions, Model: s.Model, Utility: s.Utility, Limits: s.Limits,
		StopTime: s.StopTime, Log: s.Log, Known: s.SampleStores,
	}, st, told)
	if err != nil {
		return errors.Join(err, st.Close(), closing())
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	token, err := readToken(s.Dir)
	if err != nil {
		return errors.Join(err, closing())
	}
	eng.door.add(listener, api.Config{Token: token,
		Keyring:    access.NewKeyring(access.Config{Store: st, Root: token, Log: s.Log}),
		Disclosure: api.Disclosure(s.Disclosure), URL: s.URL, Admission: api.Admission{Rate: s.Rate}})
	eng.door.links.SetAddress(browserURL(s.URL, listener.Addr()))
	link, _, _ := eng.door.links.Create() // the address is set
	s.Ready(cli.ServerInfo{URL: "http://" + listener.Addr().String(), Socket: eng.door.socket,
		TokenFile: filepath.Join(s.Dir, tokenFile), UILink: link})
	manager.send(ctx, managerReady)
	defer context.AfterFunc(ctx, func() { manager.send(context.WithoutCancel(ctx), managerStopping) })()
	return eng.Run(ctx)
}

// systemdListener reports whether the parent process has opened the socket to serve on (LISTEN_FDS
// of systemd).
func systemdListener() bool {
	pid := os.Getenv("LISTEN_PID")
	return os.Getenv("LISTEN_FDS") == "1" && (pid == "" || pid == strconv.Itoa(os.Getpid()))
}

// checkAddr refuses an invalid address, and one that others can reach without --expose.
func checkAddr(s cli.ServeOptions) error {
	if systemdListener() {
		return nil // the parent process decides
	}
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return fmt.Errorf("%w address %q: want HOST:PORT", perdure.Invalid, s.Addr)
	}
	if !s.Expose && !isLoopback(host) {
		return fmt.Errorf("%w address %q: other machines can reach it; add --expose to allow that", perdure.Invalid,
			s.Addr)
	}
	return nil
}

// listen opens the address, or takes the inherited socket, so that no connection is refused between
// two servers. The variables are removed, so that child processes do not see them.
func listen(s cli.ServeOptions) (net.Listener, error) {
	if systemdListener() {
		const first = 3 // SD_LISTEN_FDS_START of sd_listen_fds(3)
		file := os.NewFile(first, "listener")
		listener, err := net.FileListener(file)
		if err != nil {
			err = fmt.Errorf("%w: LISTEN_FDS is set, but descriptor %d is not a listening socket: %w", perdure.Invalid,
				first, err)
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

// readToken reads the token of a data directory, or creates one. It gives full access.
func readToken(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil && len(strings.TrimSpace(string(text))) >= 32:
		return strings.TrimSpace(string(text)), nil
	case err == nil:
		return "", fmt.Errorf("%w token in %s: it is shorter than 32 characters; delete the file to get a new one",
			perdure.Invalid, path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the token: %w", err)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	token := "perdure_" + base64.RawURLEncoding.EncodeToString(random[:])
	fresh := path + ".new" // a crash leaves no incomplete token at the final path
	err = writeSynced(fresh, []byte(token+"\n"))
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return token, nil
}

// writeSynced writes a file for its owner only, and returns when it is on the disk, so that a power
// cut after a rename leaves no empty file.
func writeSynced(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
