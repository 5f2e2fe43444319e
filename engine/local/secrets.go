package local

import (
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
)

// Secrets says how an engine keeps the secrets of its sessions, where the ports are the store's own (SE1 to SE4). The zero
// value keeps none: whoever asks for one is told so.
type Secrets struct {
	Keys   *secret.Keyring // seals and opens them; nil: there are none
	NoKeys string          // why Keys is nil, for whoever asks for a secret; empty: there is no keyring
	Known  *redact.Set     // is told the values, so that no log shows them (RD5); nil: nobody is
}

// ports opens the store's own ports.
func (e *Engine) ports(cfg Config) sessionport.Config {
	return sessionport.Config{
		Store: cfg.Store, Blobs: cfg.Beside.Blobs, SQL: cfg.Beside.SQL, Asked: e.asked, Log: cfg.Log,
		Keys: cfg.Secrets.Keys, NoKeys: cfg.Secrets.NoKeys, Logs: cfg.Secrets.Known,
		Utility: sessionport.Utility(cfg.Utility), Payments: e.paymentPort(), Meter: e.meter,
	}
}
