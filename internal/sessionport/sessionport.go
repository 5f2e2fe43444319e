// Package sessionport implements the ports through which a tool accesses the state of its session.
// All of them are backed by the store. There is one file for each port.
//
// It may import the root package, budget, store, tool, model, agent and the internal leaf packages
// that store such state. The one thing to know: a port is bound to its session and call when it is
// created, so no argument of a tool can direct it at another session (EN3). The org and user of the
// session are read from its row, in the transaction that needs them.
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

// Config configures the ports. Store is required.
type Config struct {
	Store store.Store
	// Blobs holds the bytes of large images. nil: the store holds them.
	Blobs *blob.Store
	// SQL holds the databases of sessions. nil: sessions have none.
	SQL *sessionsql.Store
	// FilesHome is the home that a session is bound to with its first database or large image.
	// Empty: sessions are not bound.
	FilesHome perdure.HomeID
	// Keys seals and opens secrets. nil: secrets are unavailable, and the port's errors say why.
	Keys *secret.Keyring
	// NoKeysReason is the reason why Keys is nil, for error texts. Empty: this runtime has no
	// keyring.
	NoKeysReason string
	// LogMask receives the values of opened secrets, so that no log shows them (RD5). nil: none.
	LogMask *redact.Set
	// FreshToken returns the token of a connection, refreshed if it is about to expire. NotFound:
	// it has expired for good. nil: tokens are used as they are stored.
	FreshToken func(ctx context.Context, row store.Connection) (string, error)
	Log        *slog.Logger // nil: discarded
	// NextRequest returns the request that the session's model would get now, and the fold from
	// which it was built. nil: a report on the context is unavailable.
	NextRequest func(context.Context, perdure.SessionID) (model.Request, *perdure.Session, error)
	// Meter counts the use of the utility model and checks budgets. nil: neither is done.
	Meter *meter.Meter
	// Utility is the model that tools use for their own work. The zero value is none.
	Utility Utility
	// Payments opens the payment authority of a call, and may return nil. nil: there is none.
	Payments func(session perdure.SessionID, call tool.Call) tool.Payments
}

// New returns a function that opens the ports of a call. The function is safe for concurrent use
// and does no I/O.
func New(cfg Config) func(session perdure.SessionID, call tool.Call) tool.Ports {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	all := newSecretCache(cfg)
	return func(session perdure.SessionID, call tool.Call) tool.Ports {
		b := binding{store: cfg.Store, session: session, call: call}
		ports := tool.Ports{
			Resources: resources{b}, Leases: leases{b}, Session: sessions{binding: b, nextRequest: cfg.NextRequest},
			Messages: &messages{binding: b}, Values: values{b}, Secrets: secrets{binding: b, cfg: cfg, cache: all},
		}
		ports.Credentials, ports.Connections = credentials{b, cfg, all}, connections{b, cfg, all}
		ports.Images = images{binding: b, blobs: cfg.Blobs, home: cfg.FilesHome}
		if cfg.SQL != nil {
			ports.SQL = cfg.SQL.For(session)
		}
		if cfg.SQL != nil && cfg.FilesHome != "" {
			ports.SQL = boundSQL{SQL: ports.SQL, binding: b, home: cfg.FilesHome}
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
			ports.SecretMasker = sessionMask{all: all, session: session}
		}
		return ports
	}
}
