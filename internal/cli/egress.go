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

// EgressRules gives the command line access to the egress rules of an operator. An engine applies a
// change from its next request on.
type EgressRules struct {
	// Rules reads the rules of a data directory. Invalid: the rules are broken, and all requests
	// are blocked until they are corrected.
	Rules func(dir string) (EgressConfig, error)
	// SetRules replaces the rules. Invalid: they are wrong, and nothing was changed.
	SetRules func(dir string, rules EgressConfig) error
	// Test returns where a request of a tool would be connected to, without connecting. list is the
	// network list of a session. The error is a *perdure.EgressError.
	Test func(ctx context.Context, dir, url string, list perdure.NetworkList) ([]netip.AddrPort, error)
}

// EgressConfig are the operator's rules.
type EgressConfig struct {
	Allowed, Blocked []string // patterns as in perdure.NetworkList
	Private          []string // hosts that may resolve to private addresses
	Webhooks         []string // likewise, for webhooks only
}

// The kinds of rule.
const (
	ruleAllowed = "allowed"
	ruleBlocked = "blocked"
	rulePrivate = "private"
	ruleWebhook = "webhook"
)

// egressRule is one line of egress list.
type egressRule struct {
	Rule    string `json:"rule"`
	Pattern string `json:"pattern"`
}

func (r EgressConfig) lines() []egressRule {
	var all []egressRule
	for _, kind := range []string{ruleBlocked, ruleAllowed, rulePrivate, ruleWebhook} {
		for _, pattern := range *r.of(kind) {
			all = append(all, egressRule{kind, pattern})
		}
	}
	return all
}

// of returns the rules of a kind, for changing.
func (r *EgressConfig) of(kind string) *[]string {
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
	List  egressList  `cmd:"" aliases:"ls" help:"List the egress rules."`
	Allow egressAllow `cmd:"" help:"Allow requests to a host. Once any host is allowed, all others are blocked."`
	Deny  egressDeny  `cmd:"" help:"Block requests to a host, whatever else allows it; * blocks all hosts."`
	Test  egressTest  `cmd:"" help:"Check whether a request would be allowed. The host name is resolved, but nothing is sent."`
}

type egressList struct{ outputFlags }

// Run lists the rules in order of precedence.
func (c *egressList) Run(ctx context.Context, a *app) error {
	rules, err := egressText{a}.rules()
	if err != nil {
		return err
	}
	return outputList[egressRule]{
		noun: "rules: all public hosts can be reached, unless the list of a session says otherwise",
		head: []string{"RULE", "PATTERN"},
		name: func(r egressRule) string { return r.Pattern },
		row:  func(r egressRule) []cell { return []cell{{text: r.Rule}, {text: r.Pattern}} },
	}.print(ctx, a, c.outputFlags, rules.lines())
}

// egressPatterns are the arguments and flags of allow and deny.
type egressPatterns struct {
	Patterns []string `arg:"" name:"pattern" help:"Host, *.HOST for a host and its subdomains, or a URL prefix."`
	Remove   bool     `help:"Remove the rule."`
	actFlags
}

type egressAllow struct {
	egressPatterns
	Private bool `help:"Allow private addresses for a HOST or HOST:PORT, on this machine or in your network, for all tools. It allows nothing else."`
	Webhook bool `help:"Allow webhooks to a HOST or HOST:PORT with private addresses. It allows nothing else."`
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

// Run blocks hosts.
func (c *egressDeny) Run(ctx context.Context, a *app) error { return c.change(ctx, a, ruleBlocked) }

// change adds or removes rules of a kind. Adding an existing rule changes nothing.
func (c egressPatterns) change(ctx context.Context, a *app, kind string) error {
	if err := c.checkFields([]egressRule{}); err != nil {
		return err
	}
	rules, err := egressText{a}.rules()
	if err != nil {
		return err
	}
	list, before := rules.of(kind), len(rules.Allowed)
	for _, pattern := range c.Patterns {
		switch at := slices.Index(*list, pattern); {
		case c.Remove && at < 0:
			return &userError{err: perdure.NotFound, message: fmt.Sprintf("there is no %s rule for %s", kind, pattern),
				hint: program + " egress list " + a.storeFlags() + "shows them"}
		case c.Remove:
			*list = slices.Delete(*list, at, at+1)
		case at < 0:
			*list = append(*list, pattern)
		}
	}
	verb := kind
	if c.Remove {
		verb = "no longer " + kind
	}
	if c.DryRun {
		a.message("would be %s: %s", verb, a.oneLine(strings.Join(c.Patterns, " "), 300))
		return nil
	}
	if err := a.Egress.SetRules(a.flags.Data, rules); err != nil {
		return err
	}
	a.message("%s: %s", verb, a.oneLine(strings.Join(c.Patterns, " "), 300))
	switch after := len(rules.Allowed); {
	case before == 0 && after > 0:
		a.message("all other hosts are now blocked")
	case before > 0 && after == 0:
		a.message("no host is allowed by name any more, so all public hosts can be reached")
	}
	return outputList[egressRule]{name: func(r egressRule) string { return r.Pattern }, noun: "rules",
		tell: func([]egressRule) {}}.print(ctx, a, c.outputFlags, rules.lines())
}

// rules reads the rules of the data directory.
func (a egressText) rules() (EgressConfig, error) {
	switch {
	case a.flags.Server != "":
		return EgressConfig{}, usageError("egress rules are stored in a data directory, but --server or PERDURE_SERVER names a server", "run it on the machine of the data directory, with --data; the server applies changes from its next request on")
	case a.flags.Data == "":
		return EgressConfig{}, usageError("there is no default data directory, because this user has no home directory",
			"set one with --data or PERDURE_DATA")
	}
	return a.Egress.Rules(a.flags.Data)
}

type egressTest struct {
	URL     string `arg:"" name:"url" help:"URL that a tool would request."`
	Session string `help:"Also apply the network list of this session, including its agent and harness." placeholder:"ID"`
	outputFlags
}

// egressVerdict is the output of egress test.
type egressVerdict struct {
	URL       string   `json:"url"`
	Allowed   bool     `json:"allowed"`
	Addresses []string `json:"addresses,omitempty"` // where it would be connected to
	Host      string   `json:"host,omitempty"`
	Layer     string   `json:"layer,omitempty"` // the layer whose rule denies it
	Rule      string   `json:"rule,omitempty"`
	Why       string   `json:"why,omitempty"`
}

// Run tests a URL. It returns exit code 1 when the request would be blocked.
func (c *egressTest) Run(ctx context.Context, a *app) error {
	if _, err := (egressText{a}).rules(); err != nil && !errors.Is(err, perdure.Invalid) { // broken rules are a result, too
		return err
	}
	var list perdure.NetworkList
	if c.Session != "" {
		err := a.read(ctx, func(eng Engine) error {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			fold, err := foldSession(ctx, eng, s.ID)
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
	found, err := a.Egress.Test(ctx, a.flags.Data, c.URL, list)
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
	err = c.show(ctx, a, outputObject{c.URL, v, func() { egressText{a}.printEgressVerdict(v) }})
	if err == nil && !v.Allowed {
		err = exit(exitError)
	}
	return err
}

func (a egressText) printEgressVerdict(v egressVerdict) {
	switch {
	case v.Allowed:
		fmt.Fprintf(a.out, "%s is allowed, and connects to %s\n", a.oneLine(v.URL, 300), strings.Join(v.Addresses, " "))
	case v.Layer == "":
		fmt.Fprintf(a.out, "%s is blocked: %s\n", a.oneLine(v.URL, 300), a.oneLine(v.Why, 500))
	default:
		fmt.Fprintf(a.out, "%s is blocked by the %s (%s): %s\n", a.oneLine(v.URL, 300), v.Layer, v.Rule,
			a.oneLine(v.Why, 500))
	}
}
