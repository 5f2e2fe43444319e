package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/raw"
)

// ConnectFunc returns a client for the server of an opening: that of the data directory, or that of
// --server. NotFound: the data directory has no server.
type ConnectFunc func(context.Context, OpenOptions) (raw.Client, error)

type apiCommand struct {
	Method   string   `arg:"" help:"HTTP method: GET, POST, PUT, PATCH, DELETE or HEAD. Without one it is GET, or POST with a body."`
	Path     string   `arg:"" optional:"" help:"Path of the operation, for instance /v1/sessions; see docs/reference/http.md."`
	Body     string   `short:"d" name:"body" help:"Request body, JSON unless a Content-Type header is given. @FILE reads it from a file, - from stdin." placeholder:"TEXT"`
	Header   []string `short:"H" sep:"none" help:"Request header, as 'Name: value'. Repeatable." placeholder:"HEADER"`
	Query    []string `short:"q" sep:"none" help:"Query parameter, as name=value. Repeatable." placeholder:"NAME=VALUE"`
	Include  bool     `short:"i" help:"Print the status line and the headers before the response."`
	Paginate bool     `help:"Fetch all pages of a list and print them as one."`
	Output   string   `short:"o" help:"Output format of a JSON response: raw (unchanged), json, jsonl, yaml or none." placeholder:"FORMAT" enum:"raw,json,jsonl,yaml,none" default:"raw"`
	JQ       string   `name:"jq" help:"Filter the response with a jq expression." placeholder:"EXPR"`
	Template string   `help:"Format the response with a Go template." placeholder:"TEXT"`
}

// check refuses invalid output flags before anything is sent.
func (c *apiCommand) check() error { return c.form().check() }

// form returns the output flags for a JSON response.
func (c *apiCommand) form() outputFlags {
	o := outputFlags{Output: c.Output, JQ: c.JQ, Template: c.Template}
	if o.Output == "raw" {
		o.Output = "table" // with a jq expression or a template: lines
	}
	return o
}

// Run sends a request and prints the response.
func (c *apiCommand) Run(ctx context.Context, a *app) error {
	r, err := c.request(a)
	if err != nil {
		return err
	}
	way, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if c.Paginate {
		text, err := way.Pages(ctx, r)
		if err != nil {
			return c.refused(a, err)
		}
		return c.print(ctx, a, append(text, '\n'))
	}
	resp, err := way.Do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if c.Include {
		c.head(a, resp)
	}
	if p := way.ProblemOf(resp); p != nil {
		return c.refused(a, p)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") &&
		(c.Output != "raw" || c.JQ != "" || c.Template != "" || a.Terminal.Stdout) {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return cut(ctx, err)
		}
		return c.print(ctx, a, text)
	}
	return c.pass(ctx, a, resp.Body)
}

// fillMethod fills in the method when only a path was given: GET, or POST with a body.
func (c *apiCommand) fillMethod() {
	if c.Path != "" || !strings.Contains(c.Method, "/") {
		return
	}
	c.Method, c.Path = http.MethodGet, c.Method
	if c.Body != "" {
		c.Method = http.MethodPost
	}
}

// connect returns a client for the server of --server, or for that of the data directory.
func (a *app) connect(ctx context.Context) (raw.Client, error) {
	if a.Connect == nil {
		return raw.Client{}, fmt.Errorf("%w: this build cannot connect to servers", perdure.Unavailable)
	}
	o := OpenOptions{Access: Writing}
	o.Dir, o.Database, o.Server = a.store()
	way, err := a.Connect(ctx, o)
	if errors.Is(err, perdure.NotFound) {
		return way, &userError{code: exitUnreachable, err: err,
			message: "no server is running on the data directory " + a.flags.Data,
			hint:    "start one with " + program + " serve " + a.storeFlags() + " or use another one with --server"}
	}
	return way, err
}

// request builds the request. Invalid arguments are refused before anything is sent.
func (c *apiCommand) request(a *app) (raw.Request, error) {
	c.fillMethod()
	r := raw.Request{Method: strings.ToUpper(c.Method), Path: c.Path, Query: url.Values{}, Header: http.Header{},
		Key: rand.Text()}
	if c.Path == "" {
		return r, usageError(`expected "<path>"`, "for instance "+program+" api "+c.Method+" /v1/sessions")
	}
	known := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodHead}
	if !slices.Contains(known, r.Method) {
		return r, usageError(fmt.Sprintf("%q is not a method", c.Method),
			"the methods are "+strings.Join(known, ", ")+": "+program+" api GET "+quote(c.Method))
	}
	if strings.Contains(c.Path, "://") {
		return r, usageError("the path must not contain a host",
			"choose the server with --server, and give a path that begins with /v1/")
	}
	if c.Paginate && r.Method != http.MethodGet {
		return r, usageError("--paginate works only with GET, not with "+r.Method,
			program+" api GET "+quote(c.Path)+" --paginate")
	}
	for _, typed := range c.Query {
		name, value, ok := strings.Cut(typed, "=")
		if !ok {
			return r, usageError(fmt.Sprintf("-q %q is not name=value", typed), "for instance -q limit=10")
		}
		r.Query.Add(name, value)
	}
	for _, typed := range c.Header {
		name, value, ok := strings.Cut(typed, ":")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return r, usageError(fmt.Sprintf("-H %q is not a header", typed), "for instance -H 'Prefer: wait=30'")
		// other users of this machine can read a command line
		case strings.EqualFold(strings.TrimSpace(name), "Authorization"):
			return r, usageError("do not put a token on the command line", "set PERDURE_TOKEN to the token of the server")
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if c.Body == "" {
		return r, nil
	}
	text, err := a.argument(c.Body)
	r.Body = []byte(text)
	return r, err
}

// head prints the status line and the headers of a response.
func (c *apiCommand) head(a *app, resp *http.Response) {
	fmt.Fprintln(a.out, a.text(resp.Proto+" "+resp.Status))
	var names []string
	for name := range resp.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintln(a.out, a.text(name+": "+strings.Join(resp.Header[name], ", ")))
	}
	fmt.Fprintln(a.out)
}

// print writes a JSON response.
func (c *apiCommand) print(ctx context.Context, a *app, text []byte) error {
	if c.Output == "raw" && c.JQ == "" && c.Template == "" {
		return a.jsonText(text)
	}
	if c.Output == "none" {
		return nil
	}
	if !json.Valid(text) {
		return fmt.Errorf("%w: the response is not JSON", perdure.Unavailable)
	}
	return c.form().write(ctx, a, json.RawMessage(text))
}

// pass writes a response as it arrives: a stream, a log, a file. On a terminal, control characters
// are removed.
func (c *apiCommand) pass(ctx context.Context, a *app, body io.Reader) error {
	if c.Output == "none" {
		return nil
	}
	var out io.Writer = a.out
	if a.Terminal.Stdout && !a.flags.Raw {
		safe := &printableWriter{w: a.out}
		defer safe.Close()
		out = safe
	}
	_, err := io.Copy(out, body)
	return cut(ctx, err)
}

// cut wraps the error of an incomplete response.
func cut(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: the response was cut off: %w", perdure.Unavailable, err)
}

// refused prints the body of an error response, and returns an error with the exit code of its
// status.
func (c *apiCommand) refused(a *app, err error) error {
	var p *raw.Problem
	if !errors.As(err, &p) {
		return err
	}
	if len(p.Text) > 0 && c.Output != "none" {
		if failed := a.jsonText(append(bytes.TrimRight(p.Text, "\n"), '\n')); failed != nil {
			return failed
		}
	}
	return &userError{code: codeOf(p.Status), err: p,
		message: fmt.Sprintf("%d %s: %s", p.Status, http.StatusText(p.Status), p.Error())}
}

// codeOf returns the exit code of an HTTP status.
func codeOf(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitDenied
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired,
		http.StatusTooManyRequests:
		return exitConflict
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnreachable
	case http.StatusInsufficientStorage:
		return exitStorage
	}
	if status >= 400 && status < 500 {
		return exitUsage
	}
	return exitError
}
