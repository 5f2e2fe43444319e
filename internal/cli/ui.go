package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/raw"
)

// uiPath is the path of the web UI on a server.
const uiPath = "/ui/"

// maxLinkBytes is the maximum size of a response with a link.
const maxLinkBytes = 64 << 10

type uiCommand struct {
	NoOpen bool `name:"no-open" help:"Only print the link."`
}

// signInLink is a one-time link to the web UI.
type signInLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

// Run prints a one-time link to the web UI, and opens it where there is a browser. A server that is
// reached by its address gives no links: its users have tokens.
func (c *uiCommand) Run(ctx context.Context, a *app) error {
	o := OpenOptions{Access: Writing}
	o.Dir, o.Database, o.Server = a.store()
	if strings.HasPrefix(o.Server, "http://") || strings.HasPrefix(o.Server, "https://") {
		fmt.Fprintln(a.out, a.text(strings.TrimRight(o.Server, "/")+uiPath))
		a.message("sign in with a token of this server, for instance the one in PERDURE_TOKEN")
		return nil
	}
	link, err := a.signInLink(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, a.text(link.URL))
	a.message("the link signs one browser in, until %s; the sign-in lasts 30 days", link.Expires.Local().Format("15:04"))
	if c.NoOpen || a.flags.NoInput || !a.Terminal.Stdout || a.OpenBrowser == nil {
		return nil
	}
	if err := a.OpenBrowser(ctx, o.Dir, link.URL); err != nil {
		a.message("no browser was opened: open the link yourself")
	}
	return nil
}

// signInLink asks the server of a data directory for a link.
func (a *app) signInLink(ctx context.Context, o OpenOptions) (link signInLink, err error) {
	if a.Connect == nil {
		return link, fmt.Errorf("%w: this build cannot connect to servers", perdure.Unavailable)
	}
	way, err := a.Connect(ctx, o)
	if errors.Is(err, perdure.NotFound) {
		return link, &userError{code: exitUnreachable, err: err,
			message: "no server is running on the data directory " + o.Dir,
			hint:    "start one with " + program + " serve " + a.storeFlags() + "or use another one with --server"}
	}
	if err != nil {
		return link, err
	}
	resp, err := way.Do(ctx, raw.Request{Method: http.MethodPost, Path: uiPath + "link", Key: rand.Text()})
	if err != nil {
		return link, err
	}
	defer resp.Body.Close()
	if p := way.ProblemOf(resp); p != nil {
		return link, &userError{code: codeOf(p.Status), err: p, message: p.Error(),
			hint: "stop that process, then start " + program + " serve " + a.storeFlags()}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxLinkBytes))
	if err == nil {
		err = perdure.DecodeKnownJSON(text, &link)
	}
	return link, cut(ctx, err)
}
