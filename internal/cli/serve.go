package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/redact"
)

// Serving says what is to be served.
type Serving struct {
	Dir          string        // the data directory
	Database     string        // as that of Opening
	Addr         string        // host:port
	Expose       bool          // an address that others can reach is meant
	AllowShell   bool          // bash must be there: an error says why it cannot
	Sandbox      Sandbox       // as that of Opening
	Disclosure   string        // ER4: generic, standard or detailed
	Ask, Deny    []string      // as those of Opening
	MCP          []string      // the tools that MCP clients see on /mcp; *: all that need no capability; nil: there is no /mcp
	AskUntrusted bool          // a person is asked before calls that reach further than a session which read what came from outside (S3)
	Retention    Retention     // likewise
	URL          string        // under which clients find the server; empty: they know
	Rate         int           // requests a second that each token may send; 0: any number (H10)
	Traces       string        // URL of the collector that spans are sent to (OTLP over HTTP); empty: none is sent
	TraceContent bool          // spans hold prompts, answers, arguments and results
	StopTime     time.Duration // as that of Opening
	Log          *slog.Logger
	Known        *redact.Set // as that of Opening
	// Ready is called once, when requests are answered.
	Ready func(Served)
}

// Served says where a server is reached.
type Served struct {
	URL       string
	Socket    string // of the data directory; empty: there is none
	TokenFile string // holds the token that requests to the URL need
}

type serveCommand struct {
	Addr       string `help:"Where to listen." placeholder:"HOST:PORT" default:"127.0.0.1:7373" env:"PERDURE_ADDR"`
	Expose     bool   `help:"Listen on an address that other machines can reach, too. What is sent there is not encrypted: put a proxy with TLS before it."`
	AllowShell bool   `help:"Refuse to start where commands cannot be run under a supervisor."`
	sandboxFlags
	Retention    string   `help:"How long a task is kept that has ended, for instance 30d or 720h; 0 means for ever. Default: 30d." placeholder:"DURATION" env:"PERDURE_TASKS_RETENTION"`
	Disclosure   string   `help:"How much answers say about what failed inside: generic, standard or detailed." placeholder:"MODE" enum:"generic,standard,detailed" default:"standard"`
	PublicURL    string   `name:"public-url" help:"Where clients find this server, when that is another address than its own, as behind a proxy. Errors then name the whole URL of their page." placeholder:"URL" env:"PERDURE_PUBLIC_URL"`
	Rate         int      `help:"How many requests a second each token may send, and as many at once; what is more is answered with 429. What stops work is not counted. 0 means any number." placeholder:"N"`
	AskUntrusted bool     `name:"ask-untrusted" help:"Once a session has read what came from outside (a page, a file, the output of a command), ask a person before each call that reaches further than the session: perdure approve answers."`
	Ask          []string `help:"Ask a person before each call of this tool: perdure approve answers. Can be given several times." placeholder:"TOOL"`
	Deny         []string `help:"Let no call of this tool run. Can be given several times." placeholder:"TOOL"`
	OTLPEndpoint string   `name:"otlp-endpoint" help:"Send spans to this collector of OpenTelemetry (OTLP over HTTP). Without it nothing is sent anywhere; figures are served on /metrics." placeholder:"URL" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	TraceContent bool     `name:"trace-content" help:"Let spans hold prompts, answers, arguments and results; known secrets are taken out."`
	MCPTool      []string `name:"mcp-tool" help:"Show this tool to MCP clients on /mcp; * shows all that need no capability. Can be given several times." placeholder:"TOOL"`
}

// publicURL checks the address that clients are told of. It has no slash at its end.
func publicURL(text string) (string, error) {
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return "", misuse("--public-url is the address of this server, as clients write it", "for instance https://example.com/perdure")
	}
	return strings.TrimRight(text, "/"), nil
}

// Run serves until a signal comes, then lets what is in work settle. Ending so is no error.
func (c *serveCommand) Run(ctx context.Context, a *app) error {
	if a.flags.Data == "" {
		return misuse("there is no data directory: this system names no home", "name one with --data or PERDURE_DATA")
	}
	if err := a.local("serve", "server"); err != nil {
		return err
	}
	if c.Rate < 0 {
		return misuse("--rate is a number of requests a second", "0 means any number")
	}
	public, err := publicURL(c.PublicURL)
	if err != nil {
		return err
	}
	sandbox, err := a.sandbox(c.sandbox())
	if err != nil {
		return err
	}
	a.stopCode.Store(exitOK) // to end is what it was told
	err = a.Serve(ctx, Serving{
		StopTime: a.flags.StopTimeout, Dir: a.flags.Data, Database: a.flags.Database, Addr: c.Addr, Expose: c.Expose, AllowShell: c.AllowShell, Sandbox: sandbox, Disclosure: c.Disclosure,
		Ask: c.Ask, Deny: c.Deny, MCP: c.MCPTool, AskUntrusted: c.AskUntrusted, Retention: a.retention(c.Retention), Rate: c.Rate, URL: public, Log: a.log,
		Traces: c.OTLPEndpoint, TraceContent: c.TraceContent,
		Ready: func(s Served) {
			fmt.Fprintln(a.out, s.URL)
			a.say("data      %s", a.line(a.flags.Data, 300))
			a.say("token     in %s", a.line(s.TokenFile, 300))
			if s.Socket != "" {
				a.say("socket    %s", a.line(s.Socket, 300))
			}
			a.say("%s %s", a.paint.talk.mark(dim, "try:"), `curl -H "Authorization: Bearer $(cat `+quote(s.TokenFile)+`)" `+s.URL+"/v1/sessions")
		},
	})
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted) && (err == nil || errors.Is(err, context.Canceled)):
		a.say("stopped: what was not done goes on with the next start")
		return exit(exitOK)
	case err != nil:
		return noAddress(a.cannotOpen(ctx, Opening{Access: Writing, Dir: a.flags.Data, Database: a.flags.Database, Log: a.log}, err), c.Addr)
	}
	return nil
}

// noAddress says what to do about an address that cannot be listened on; other errors it leaves as they are.
func noAddress(err error, addr string) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	return &fault{err: err, what: err.Error(), todo: "another program may have " + addr + ": --addr HOST:PORT or PERDURE_ADDR names another address, and --addr 127.0.0.1:0 any port that is free"}
}
