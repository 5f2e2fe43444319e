package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/cli/settings"
	"github.com/perdure/perdure/internal/redact"
)

// ServeOptions configures a server.
type ServeOptions struct {
	Dir          string      // the data directory
	Database     string      // as in Opening
	SharedFiles  bool        // likewise
	Addr         string      // host:port
	Expose       bool        // listening on an address that other machines can reach is intended
	AllowShell   bool        // bash is required: Serve fails if it cannot run
	Sandbox      Sandbox     // as in Opening
	Disclosure   string      // generic, standard or detailed
	Ask, Deny    []string    // as in Opening
	MCP          []string    // tools for MCP clients on /mcp; *: all that need no capability; nil: /mcp is off
	AskUntrusted bool        // after untrusted content, calls that reach beyond the session need approval
	Secrets      SecretRules // as in Opening
	Retention    Retention   // likewise
	URL          string      // public URL of the server; empty: the one it listens on
	Rate         int         // requests per second of each token; 0: unlimited
	Traces       string      // URL of the collector of spans (OTLP over HTTP); empty: no spans are sent
	TraceContent bool        // spans contain prompts, answers, arguments and results
	ModelOptions []string    // as in Opening
	Model        string      // as in Opening
	Utility      settings.Utility
	Limits       Limits        // as in Opening
	StopTime     time.Duration // as in Opening
	Log          *slog.Logger
	SampleStores *redact.Set // as in Opening
	// Ready is called once, when requests are answered.
	Ready func(ServerInfo)
}

// ServerInfo says how a server is reached.
type ServerInfo struct {
	URL       string
	Socket    string // of the data directory; empty: there is none
	TokenFile string // file with the token for requests to the URL
	UILink    string // signs one browser in to the web UI
}

type serveCommand struct {
	Addr       string `help:"Address to listen on." placeholder:"HOST:PORT" default:"127.0.0.1:7373" env:"PERDURE_ADDR"`
	Detach     bool   `short:"d" help:"Serve in the background, and return when requests are answered. Messages go to serve.log in the data directory; perdure stop ends the server."`
	Expose     bool   `help:"Allow an address that other machines can reach. Traffic is not encrypted: put a TLS proxy in front."`
	AllowShell bool   `help:"Fail at the start if commands cannot be run under a supervisor."`
	sandboxFlags
	settings.Utility
	Retention    string   `help:"Keep ended tasks for this long, for instance 30d or 720h; 0 keeps them forever. Default: 30d." placeholder:"DURATION" env:"PERDURE_TASKS_RETENTION"`
	Disclosure   string   `help:"Detail of internal errors in responses: generic, standard or detailed." placeholder:"MODE" enum:"generic,standard,detailed" default:"standard"`
	PublicURL    string   `name:"public-url" help:"Public URL of this server, for instance behind a proxy. Errors then contain the full URL of their documentation." placeholder:"URL" env:"PERDURE_PUBLIC_URL"`
	Rate         int      `help:"Requests per second for each token, and burst size. More are answered with 429, except requests that stop work. 0 for no limit." placeholder:"N"`
	AskUntrusted bool     `name:"ask-untrusted" help:"Once a session has read untrusted content (a web page, a file, command output), require an approval for each call that reaches beyond the session."`
	Ask          []string `help:"Require an approval for each call of this tool (see perdure approve). Repeatable." placeholder:"TOOL"`
	Deny         []string `help:"Deny every call of this tool. Repeatable." placeholder:"TOOL"`
	secretFlags
	OTLPEndpoint string   `name:"otlp-endpoint" help:"Send spans to this OpenTelemetry collector (OTLP over HTTP). Metrics are served on /metrics in any case." placeholder:"URL" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	TraceContent bool     `name:"trace-content" help:"Include prompts, answers, arguments and results in spans; known secrets are masked."`
	Model        string   `help:"Model of sessions that name none. It comes before the default models of the store (see perdure model default)." placeholder:"MODEL"`
	MCPTool      []string `name:"mcp-tool" help:"Offer this tool to MCP clients on /mcp; * offers all tools that need no capability. Repeatable." placeholder:"TOOL"`
}

// publicURL checks the public URL and removes trailing slashes.
func publicURL(text string) (string, error) {
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "") {
		return "", usageError("--public-url is not the URL of a server", "for instance https://example.com/perdure")
	}
	return strings.TrimRight(text, "/"), nil
}

// Run serves until a signal arrives, then lets running work settle. Such a stop is not an error.
func (c *serveCommand) Run(ctx context.Context, a *app) error {
	if a.flags.Data == "" {
		return usageError("there is no default data directory, because this user has no home directory",
			"set one with --data or PERDURE_DATA")
	}
	if err := a.checkLocal("serve", "server"); err != nil {
		return err
	}
	if c.Rate < 0 {
		return usageError("--rate must not be negative", "give a number of requests per second, or 0 for no limit")
	}
	public, err := publicURL(c.PublicURL)
	if err != nil {
		return err
	}
	sandbox, err := a.sandbox(c.sandbox())
	if err != nil {
		return err
	}
	if c.Detach {
		return c.detach(ctx, a)
	}
	a.stopCode.Store(exitOK) // a stop by signal is a success
	err = a.Serve(ctx, ServeOptions{
		ModelOptions: a.flags.ModelOption, Limits: a.flags.Limits, StopTime: a.flags.StopTimeout, Dir: a.flags.Data, Database: a.flags.Database, SharedFiles: a.flags.SharedFiles,
		Addr: c.Addr, Expose: c.Expose,
		AllowShell: c.AllowShell, Sandbox: sandbox, Disclosure: c.Disclosure,
		Ask: c.Ask, Deny: c.Deny, MCP: c.MCPTool, AskUntrusted: c.AskUntrusted, Secrets: c.secrets(), Retention: a.retention(c.Retention),
		Rate: c.Rate, URL: public, Model: c.Model, Utility: c.Utility, Log: a.log,
		Traces: c.OTLPEndpoint, TraceContent: c.TraceContent,
		Ready: a.printServer,
	})
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted) && (err == nil || errors.Is(err, context.Canceled)):
		a.message("stopped; unfinished work resumes at the next start")
		return exit(exitOK)
	case err != nil:
		return addressError(a.openError(ctx,
			OpenOptions{Access: Writing, Dir: a.flags.Data, Database: a.flags.Database, Log: a.log}, err), c.Addr)
	}
	return nil
}

// uiAddress returns how to open the web UI. Only a terminal gets the link that signs a browser in:
// a log is read by others, too.
func (a *app) uiAddress(s ServerInfo) string {
	if a.Terminal.Stderr {
		return s.UILink
	}
	address, _, _ := strings.Cut(s.UILink, "#")
	return address + "  (sign in with: " + strings.TrimSpace(program+" ui "+a.storeFlags()) + ")"
}

// addressError adds advice to the error of an address that cannot be listened on. Other errors stay
// as they are.
func addressError(err error, addr string) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	return &userError{err: err, message: err.Error(),
		hint: "another program may use " + addr +
			": choose another address with --addr HOST:PORT or PERDURE_ADDR, or any free port with --addr 127.0.0.1:0"}
}
