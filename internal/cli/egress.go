package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// WayOut is how the command line reaches what an operator says of requests to the network. Whoever holds the data
// directory obeys a change from its next request on.
type WayOut struct {
	// Rules reads the rules of a data directory. Invalid: they cannot be understood, and nothing leaves until they can.
	Rules func(dir string) (WayOutRules, error)
	// SetRules replaces them. Invalid: they cannot be obeyed, and nothing changed.
	SetRules func(dir string, rules WayOutRules) error
	// Try says where a request of a tool would be connected to, without a connection. list is that of a session. The error is
	// a *perdure.EgressError.
	Try func(ctx context.Context, dir, url string, list perdure.NetworkList) ([]netip.AddrPort, error)
}

// WayOutRules are the operator's rules.
type WayOutRules struct {
	Allowed, Blocked []string // as of perdure.NetworkList
	Private          []string // hosts that may lead to private addresses
	Webhooks         []string // likewise, for webhooks and for nothing else
}

// The kinds of a rule.
const (
	ruleAllowed = "allowed"
	ruleBlocked = "blocked"
	rulePrivate = "private"
	ruleWebhook = "webhook"
)

// wayOutRule is one rule, as a line.
type wayOutRule struct {
	Rule    string `json:"rule"`
	Pattern string `json:"pattern"`
}

func (r WayOutRules) lines() []wayOutRule {
	var all []wayOutRule
	for _, kind := range []string{ruleBlocked, ruleAllowed, rulePrivate, ruleWebhook} {
		for _, pattern := range *r.of(kind) {
			all = append(all, wayOutRule{kind, pattern})
		}
	}
	return all
}

// of is the rules of a kind, to be changed.
func (r *WayOutRules) of(kind string) *[]string {
	switch kind {
	case ruleAllowed:
		return &r.Allowed
	case ruleBlocked:
		return &r.Blocked
	case ruleWebhook:
		return &r.Webhooks
	}
	return &r.Private
}

type egressCommand struct {
	List  egressList  `cmd:"" help:"What the operator says of requests to the network."`
	Allow egressAllow `cmd:"" help:"Let requests to a host leave; as soon as one is allowed, all others are not."`
	Deny  egressDeny  `cmd:"" help:"Let no request to a host leave, whatever else allows it; * is every host."`
	Test  egressTest  `cmd:"" help:"Say whether a request would leave, and why not. Nothing is sent; the name is looked up."`
}

type egressList struct{ output }

// Run lists the rules, in the order in which they count.
func (c *egressList) Run(ctx context.Context, a *app) error {
	rules, err := a.rules()
	if err != nil {
		return err
	}
	return listing[wayOutRule]{
		noun: "rules: whatever is public may be reached, unless a session's own list says otherwise", head: []string{"RULE", "PATTERN"},
		name: func(r wayOutRule) string { return r.Pattern },
		row:  func(r wayOutRule) []cell { return []cell{{text: r.Rule}, {text: r.Pattern}} },
	}.print(ctx, a, c.output, rules.lines())
}

// egressPatterns are what allow and deny take.
type egressPatterns struct {
	Patterns []string `arg:"" name:"pattern" help:"A host, *.HOST for it and all below, or the beginning of a URL."`
	Remove   bool     `help:"Take the rule away again."`
	DryRun   bool     `help:"Only say what would be done."`
	output
}

type egressAllow struct {
	egressPatterns
	Private bool `help:"Let a HOST or HOST:PORT be private: on this machine, or in your own network. It opens that to all tools, and allows no more than that."`
	Webhook bool `help:"Let a HOST or HOST:PORT that is private be sent webhooks. It opens that to nothing else."`
}

// Run allows hosts.
func (c *egressAllow) Run(ctx context.Context, a *app) error {
	if c.Webhook {
		return c.change(ctx, a, ruleWebhook)
	}
	if c.Private {
		return c.change(ctx, a, rulePrivate)
	}
	return c.change(ctx, a, ruleAllowed)
}

type egressDeny struct{ egressPatterns }

// Run denies hosts.
func (c *egressDeny) Run(ctx context.Context, a *app) error { return c.change(ctx, a, ruleBlocked) }

// change adds or removes rules of a kind. What is there already, or is not, changes nothing.
func (c egressPatterns) change(ctx context.Context, a *app, kind string) error {
	if err := c.suits([]wayOutRule{}); err != nil {
		return err
	}
	rules, err := a.rules()
	if err != nil {
		return err
	}
	list, before := rules.of(kind), len(rules.Allowed)
	for _, pattern := range c.Patterns {
		switch at := slices.Index(*list, pattern); {
		case c.Remove && at < 0:
			return &fault{err: perdure.NotFound, what: fmt.Sprintf("there is no rule that %s is %s", pattern, kind), todo: program + " egress list " + a.place() + "shows them"}
		case c.Remove:
			*list = slices.Delete(*list, at, at+1)
		case at < 0:
			*list = append(*list, pattern)
		}
	}
	verb := kind
	if c.Remove {
		verb = "not " + kind + " any more"
	}
	if c.DryRun {
		a.say("would be %s: %s", verb, a.line(strings.Join(c.Patterns, " "), 300))
		return nil
	}
	if err := a.WayOut.SetRules(a.flags.Data, rules); err != nil {
		return err
	}
	a.say("%s: %s", verb, a.line(strings.Join(c.Patterns, " "), 300))
	switch after := len(rules.Allowed); {
	case before == 0 && after > 0:
		a.say("from now on no other host is reached")
	case before > 0 && after == 0:
		a.say("no host is allowed by name now, so every public one may be reached")
	}
	return listing[wayOutRule]{name: func(r wayOutRule) string { return r.Pattern }, noun: "rules", tell: func([]wayOutRule) {}}.print(ctx, a, c.output, rules.lines())
}

// rules reads what stands in the data directory.
func (a *app) rules() (WayOutRules, error) {
	switch {
	case a.flags.Server != "":
		return WayOutRules{}, misuse("the rules stand in a data directory, and --server or PERDURE_SERVER names a server", "run it where the data directory is, with --data; the server obeys from its next request on")
	case a.flags.Data == "":
		return WayOutRules{}, misuse("there is no data directory: this system names no home", "name one with --data or PERDURE_DATA")
	}
	return a.WayOut.Rules(a.flags.Data)
}

type egressTest struct {
	URL     string `arg:"" name:"url" help:"What a tool would ask for."`
	Session string `help:"With the list of this session: of its harness, its agent and its own together." placeholder:"ID"`
	output
}

// egressVerdict is the answer of test.
type egressVerdict struct {
	URL       string   `json:"url"`
	Allowed   bool     `json:"allowed"`
	Addresses []string `json:"addresses,omitempty"` // where it would be connected to
	Host      string   `json:"host,omitempty"`
	Layer     string   `json:"layer,omitempty"` // whose rule denies it
	Rule      string   `json:"rule,omitempty"`
	Why       string   `json:"why,omitempty"`
}

// Run tries a URL. A request that would not leave is exit code 1.
func (c *egressTest) Run(ctx context.Context, a *app) error {
	if _, err := a.rules(); err != nil && !errors.Is(err, perdure.Invalid) { // broken rules are an answer
		return err
	}
	var list perdure.NetworkList
	if c.Session != "" {
		err := a.read(ctx, func(eng Engine) error {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			fold, err := foldOf(ctx, eng, s.ID)
			if err == nil {
				list = fold.Agent.Network
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	v := egressVerdict{URL: c.URL}
	found, err := a.WayOut.Try(ctx, a.flags.Data, c.URL, list)
	var refused *perdure.EgressError
	switch {
	case err == nil:
		v.Allowed = true
		for _, addr := range found {
			v.Addresses = append(v.Addresses, addr.String())
		}
	case errors.As(err, &refused):
		v.Host, v.Layer, v.Rule, v.Why = refused.Host, refused.Layer, refused.Rule, refused.Text
	default:
		return err
	}
	err = c.show(ctx, a, shown{c.URL, v, func() { a.tellVerdict(v) }})
	if err == nil && !v.Allowed {
		err = exit(exitError)
	}
	return err
}

func (a *app) tellVerdict(v egressVerdict) {
	switch {
	case v.Allowed:
		fmt.Fprintf(a.out, "%s would leave, to %s\n", a.line(v.URL, 300), strings.Join(v.Addresses, " "))
	case v.Layer == "":
		fmt.Fprintf(a.out, "%s would not leave: %s\n", a.line(v.URL, 300), a.line(v.Why, 500))
	default:
		fmt.Fprintf(a.out, "%s is denied by the %s (%s): %s\n", a.line(v.URL, 300), v.Layer, v.Rule, a.line(v.Why, 500))
	}
}
