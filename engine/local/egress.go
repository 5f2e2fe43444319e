package local

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// Egress carries the outgoing requests of tools and webhooks: for [Ports] and [Webhooks]. It checks
// every address that it connects to, so that no name leads to a private address unnoticed.
type Egress = egress.Guard

// EgressConfig configures [NewEgress]. The zero value allows all public addresses, and no private
// ones.
type EgressConfig struct {
	List     perdure.NetworkList       // the hosts that may be reached; the list of a request can only narrow it
	Private  []string                  // private addresses that tools may reach, such as 127.0.0.1:8080; without a port: all ports
	Webhooks []string                  // private addresses that webhooks may reach
	OnDenied func(perdure.EgressError) // receives every denial; called concurrently; nil: they are not reported
}

// NewEgress creates the egress of a program. Invalid: the list or an address is not valid.
func NewEgress(c EgressConfig) (*Egress, error) {
	cfg := egress.Config{List: c.List, OnDenied: c.OnDenied}
	for _, of := range []struct {
		purpose string
		hosts   []string
	}{{"", c.Private}, {egress.ForWebhooks, c.Webhooks}} {
		for _, host := range of.hosts {
			cfg.Listed = append(cfg.Listed, egress.Listing{Purpose: of.purpose, Host: host})
		}
	}
	return egress.New(cfg)
}
