// Package sessionport makes the ports by which a tool reaches the state of its session, over the store: one noun a file.
//
// It may import the root, budget, store, tool, model and the leaves that keep such state. The one thing to know: a port is bound to
// its session and call when it is made, so nothing that a tool says can point it to another session (EN3). Whose session that is,
// org and user, a port reads in the session's row, in the transaction in which it needs it.
package sessionport

import (
	"context"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config is what ports are made of. Store is required.
type Config struct {
	Store store.Store
	// Blobs keeps the bytes of large images. nil: the store does.
	Blobs *blob.Store
	// SQL is the databases of sessions. nil: they have none.
	SQL *sessionsql.Store
	// Keys seals and opens secrets. nil: there are none, and the port says why.
	Keys *secret.Keyring
	// NoKeys is why Keys is nil, for those who ask for a secret. Empty: that this runtime has no keyring.
	NoKeys string
	// Logs is told the values of secrets that are opened, so that no log shows them (RD5). nil: nobody is.
	Logs *redact.Set
	Log  *slog.Logger // nil: discarded
	// Asked returns what the model of a session is asked, built as for the question itself, and the fold that it is
	// built from. nil: nobody can report on the context.
	Asked func(context.Context, perdure.SessionID) (model.Request, *perdure.Session, error)
	// Meter counts what the utility model uses, and says what may still be spent. nil: nobody does.
	Meter *meter.Meter
	// Utility is what tools ask for their inner work. The zero value is nothing.
	Utility Utility
	// Payments opens the payment authority for a call, or answers nil. nil: there is none.
	Payments func(session perdure.SessionID, call tool.Call) tool.Payments
}

// New returns what opens the ports of a call. The function is safe for concurrent use, and asks nobody.
func New(cfg Config) func(session perdure.SessionID, call tool.Call) tool.Ports {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	all := newKnown(cfg)
	return func(session perdure.SessionID, call tool.Call) tool.Ports {
		b := binding{store: cfg.Store, session: session, call: call}
		ports := tool.Ports{
			Resources: resources{b}, Leases: leases{b}, Session: sessions{binding: b, asked: cfg.Asked}, Messages: &messages{binding: b},
			Values: values{b}, Secrets: secrets{binding: b, cfg: cfg, known: all},
		}
		ports.Credentials, ports.Connections = credentials{b, cfg, all}, connections{b, cfg, all}
		ports.Images = images{binding: b, blobs: cfg.Blobs}
		if cfg.SQL != nil {
			ports.SQL = cfg.SQL.For(session)
		}
		if cfg.Utility.Model != nil {
			ports.Utility = utility{binding: b, cfg: cfg.Utility, meter: cfg.Meter, log: cfg.Log}
		}
		if cfg.Meter != nil {
			ports.Budgets = budgets{binding: b, meter: cfg.Meter}
		}
		if cfg.Payments != nil {
			ports.Payments = cfg.Payments(session, call)
		}
		if cfg.Keys != nil {
			ports.Known = bound{all: all, session: session}
		}
		return ports
	}
}
