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

// Wire reaches the server that an opening means: that of the data directory, or the one that was named. NotFound: nobody holds the
// directory.
type Wire func(context.Context, Opening) (raw.Way, error)

type apiCommand struct {
	Method   string   `arg:"" help:"GET, POST, PUT, PATCH, DELETE or HEAD."`
	Path     string   `arg:"" help:"Of the operation, for instance /v1/sessions; docs/reference/http.md has them."`
	Body     string   `short:"d" name:"body" help:"What to send: JSON, unless a Content-Type says otherwise. @FILE reads it from a file, - from stdin." placeholder:"TEXT"`
	Header   []string `short:"H" sep:"none" help:"A header, as 'Name: value'. Can be given several times." placeholder:"HEADER"`
	Query    []string `short:"q" sep:"none" help:"A parameter behind the path, as name=value. Can be given several times." placeholder:"NAME=VALUE"`
	Include  bool     `short:"i" help:"Print the status and the headers of the answer before it."`
	Paginate bool     `help:"Read a list to its end, and print it as one page."`
	Output   string   `short:"o" help:"How to print an answer that is JSON: as it is (raw), or as json, jsonl, yaml or none." placeholder:"FORM" enum:"raw,json,jsonl,yaml,none" default:"raw"`
	JQ       string   `name:"jq" help:"Print what an expression of jq makes of the answer." placeholder:"EXPR"`
	Template string   `help:"Print what a Go template makes of the answer." placeholder:"TEXT"`
}

// check refuses, before anything is sent, what could never be printed.
func (c *apiCommand) check() error { return c.form().check() }

// form is how an answer that is JSON is printed.
func (c *apiCommand) form() output {
	o := output{Output: c.Output, JQ: c.JQ, Template: c.Template}
	if o.Output == "raw" {
		o.Output = "table" // with an expression or a template: lines
	}
	return o
}

// Run sends one request, as gh api does, and prints the answer.
func (c *apiCommand) Run(ctx context.Context, a *app) error {
	r, err := c.request(a)
	if err != nil {
		return err
	}
	if a.Wire == nil {
		return fmt.Errorf("%w: this program reaches no server", perdure.Unavailable)
	}
	o := Opening{Access: Writing}
	o.Dir, o.Database, o.Server = a.store()
	way, err := a.Wire(ctx, o)
	if errors.Is(err, perdure.NotFound) {
		return &fault{code: exitUnreachable, err: err, what: "no server holds the data directory " + a.flags.Data, todo: program + " serve " + a.place() + " holds it and answers; --server names another one"}
	}
	if err != nil {
		return err
	}
	if c.Paginate {
		text, err := way.All(ctx, r)
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
	if p := way.Refused(resp); p != nil {
		return c.refused(a, p)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && (c.Output != "raw" || c.JQ != "" || c.Template != "" || a.Terminal.Stdout) {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return cut(ctx, err)
		}
		return c.print(ctx, a, text)
	}
	return c.pass(ctx, a, resp.Body)
}

// request is what was typed. Invalid input is told before anything is sent.
func (c *apiCommand) request(a *app) (raw.Request, error) {
	r := raw.Request{Method: strings.ToUpper(c.Method), Path: c.Path, Query: url.Values{}, Header: http.Header{}, Key: rand.Text()}
	known := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead}
	if !slices.Contains(known, r.Method) {
		return r, misuse(fmt.Sprintf("%q is no method", c.Method), "the methods are "+strings.Join(known, ", ")+": "+program+" api GET "+quote(c.Method))
	}
	if strings.Contains(c.Path, "://") {
		return r, misuse("a path has no host", "--server names the server, and the path begins with /v1/")
	}
	if c.Paginate && r.Method != http.MethodGet {
		return r, misuse("--paginate reads a list, and "+r.Method+" reads none", program+" api GET "+quote(c.Path)+" --paginate")
	}
	for _, typed := range c.Query {
		name, value, ok := strings.Cut(typed, "=")
		if !ok {
			return r, misuse(fmt.Sprintf("-q %q is no name=value", typed), "-q limit=10")
		}
		r.Query.Add(name, value)
	}
	for _, typed := range c.Header {
		name, value, ok := strings.Cut(typed, ":")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return r, misuse(fmt.Sprintf("-H %q is no header", typed), "-H 'Prefer: wait=30'")
		case strings.EqualFold(strings.TrimSpace(name), "Authorization"): // C11: others on this machine can read a command line
			return r, misuse("a token does not belong on a command line", "PERDURE_TOKEN holds the token of the server")
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

// head prints the status and the headers of an answer.
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

// print writes an answer that is JSON.
func (c *apiCommand) print(ctx context.Context, a *app, text []byte) error {
	if c.Output == "raw" && c.JQ == "" && c.Template == "" {
		return a.jsonText(text)
	}
	if c.Output == "none" {
		return nil
	}
	if !json.Valid(text) {
		return fmt.Errorf("%w: the answer is no JSON", perdure.Unavailable)
	}
	return c.form().write(ctx, a, json.RawMessage(text))
}

// pass writes bytes as they come: a stream, a log, a file. On a terminal, without what could drive it.
func (c *apiCommand) pass(ctx context.Context, a *app, body io.Reader) error {
	if c.Output == "none" {
		return nil
	}
	var out io.Writer = a.out
	if a.Terminal.Stdout && !a.flags.Raw {
		safe := &plainWriter{w: a.out}
		defer safe.Close()
		out = safe
	}
	_, err := io.Copy(out, body)
	return cut(ctx, err)
}

// cut words the end of an answer that did not come whole.
func cut(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: the answer was cut: %w", perdure.Unavailable, err)
}

// refused prints the body of an answer that is an error, and ends with the exit code of its status (C4).
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
	return &fault{code: codeOf(p.Status), err: p, what: fmt.Sprintf("%d %s: %s", p.Status, http.StatusText(p.Status), p.Error())}
}

// codeOf is the exit code of a status.
func codeOf(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitDenied
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusTooManyRequests:
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
