package program

import (
	"errors"
	"path"
	"strings"
)

// need is a rule that says which work needs a capability.
type need struct {
	tool       string // a pattern of tool names, as in path.Match; empty: the rule is about a label
	key, value string // of the label
	capability string
}

var errNeed = errors.New("want tool:PATTERN=WORD or label:KEY=VALUE=WORD")

// UnmarshalText reads tool:PATTERN=WORD or label:KEY=VALUE=WORD.
func (n *need) UnmarshalText(text []byte) error {
	kind, rule, _ := strings.Cut(string(text), ":")
	at := strings.LastIndexByte(rule, '=')
	if at <= 0 || at == len(rule)-1 {
		return errNeed
	}
	what, capability := rule[:at], rule[at+1:]
	key, value, labelled := strings.Cut(what, "=")
	_, malformed := path.Match(what, "")
	switch {
	case kind == "tool" && malformed == nil:
		*n = need{tool: what, capability: capability}
	case kind == "label" && labelled && key != "":
		*n = need{key: key, value: value, capability: capability}
	default:
		return errNeed
	}
	return nil
}

// matches reports whether the rule is about work.
func (n need) matches(tool string, labels map[string]string) bool {
	if n.tool == "" {
		value, has := labels[n.key]
		return has && value == n.value
	}
	is, err := path.Match(n.tool, tool)
	return err == nil && is && tool != ""
}

// capabilityOf returns what work needs by the first rule that is about it.
func (o *options) capabilityOf(tool string, labels map[string]string) string {
	for _, n := range o.TemporalNeeds {
		if n.matches(tool, labels) {
			return n.capability
		}
	}
	return ""
}
