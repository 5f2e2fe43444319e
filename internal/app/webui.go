package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/ui"
)

// browserToken is the name of the tokens of browsers that sign in by link.
const browserToken = "web UI"

// browsers creates the tokens of browsers that sign in by link, with the engine that runs now.
type browsers struct{ server *listenerServer }

var _ ui.Browsers = browsers{}

// Create creates a token with all scopes: the link is for those who can read the data directory.
func (b browsers) Create(ctx context.Context, expires time.Time) (secret string, err error) {
	made, err := (*b.server.engine.Load()).Tokens().Create(ctx, engine.TokenRequest{Name: browserToken, Expires: expires, By: "operator",
		Scopes: []string{engine.ScopeRead, engine.ScopeWrite, engine.ScopeApprove, engine.ScopeAdmin}})
	return made.Secret, err
}

// Revoke implements ui.Browsers.
func (b browsers) Revoke(ctx context.Context, id perdure.TokenID) error {
	_, err := (*b.server.engine.Load()).Tokens().Revoke(ctx, id, "operator")
	return err
}

// withUI puts the web UI before the API of a listener. A listener that only knows one token, as
// that of a demo, has none.
func (d *apiServer) withUI(o *listenerServer, answer http.Handler, cfg api.Config) http.Handler {
	if !cfg.Local && cfg.Keyring == nil {
		return answer
	}
	pages, err := ui.New(ui.Config{API: answer, Keyring: cfg.Keyring, Browsers: browsers{o}, Links: d.links, Local: cfg.Local})
	if err != nil { // every field is set
		d.log.Error("serving the web UI failed", "error", err)
		return answer
	}
	return pages
}

// openPages serves the API and the web UI on an address of this machine as well, for a demo.
func (d *apiServer) openPages(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil || !isLoopback(host) {
		return fmt.Errorf("%w address %q: want HOST:PORT of this machine", perdure.Invalid, addr)
	}
	token, err := readToken(d.dir)
	if err != nil {
		return err
	}
	listener, err := listen(cli.ServeOptions{Addr: addr})
	if err != nil {
		return err
	}
	d.add(listener, api.Config{Token: token, Keyring: access.NewKeyring(access.Config{Store: d.keys.store, Root: token, Log: d.log})})
	d.links.SetAddress(browserURL("", listener.Addr()))
	return nil
}

// browserURL returns the address of a server as a browser on this machine reaches it.
func browserURL(public string, addr net.Addr) string {
	if public != "" {
		return public
	}
	if at, err := netip.ParseAddrPort(addr.String()); err == nil && at.Addr().IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", at.Port())
	}
	return "http://" + addr.String()
}

// openBrowser opens an address in the browser of the user. A command line is visible to all users
// of a machine, and the address may contain a code: so the browser opens a file of the data
// directory, which only its owner can read and which leads to the address.
func openBrowser(ctx context.Context, dir, address string) error {
	if runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return fmt.Errorf("%w: this session has no display", perdure.Unavailable)
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	file := filepath.Join(dir, "ui.html")
	// an address of a server and a code: neither contains a character that HTML reads
	text := `<!doctype html><meta charset="utf-8"><title>Perdure</title><meta http-equiv="refresh" content="0;url=` + address + `">`
	if err := writeSynced(file, []byte(text)); err != nil {
		return err
	}
	return exec.CommandContext(ctx, program, file).Run()
}
