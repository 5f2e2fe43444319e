package local

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/engine/host"
)

// Config configures an engine. Store, Model and Tools are required.
type Config = host.Config

// The parts of a configuration; packages config and host document them.
type (
	Limits   = config.Limits    // how much work there may be
	Overflow = perdure.Overflow // what happens to a background run without a free slot
	Timing   = config.Timing    // how long work may take
	Policies = config.Policies  // what the program decides about calls and responses
	Guard    = config.Guard     // checks a model response while it streams
	Ports    = config.Ports     // what tools reach outside their call

	Workers         = host.Workers         // the processes that share the store
	Catalogue       = host.Catalogue       // what callers and agents may choose from
	Storage         = host.Storage         // what sessions store outside the store
	Secrets         = host.Secrets         // encrypts the secrets of sessions
	Utility         = host.Utility         // a small model that tools may use
	Billing         = host.Billing         // prices, and the owners of sessions
	Payments        = host.Payments        // what tools may pay
	Outbound        = host.Outbound        // limits the outbound calls of tools
	OutboundCounts  = host.OutboundCounts  // what that limiter decided
	Webhooks        = host.Webhooks        // sends events to webhooks
	Providers       = host.Providers       // parts of the configuration that callers can read, and models
	ConfiguredAgent = host.ConfiguredAgent // an agent from the program's configuration
	Connections     = host.Connections     // the servers whose tools agents may use
	OAuthProviders  = host.OAuthProviders  // the services at which users authorize their connections
	OAuthProvider   = host.OAuthProvider   // one of them
	Cleanup         = host.Cleanup         // removes leased resources
	Timekeeping     = host.Timekeeping     // how schedules fire
	Telemetry       = host.Telemetry       // exports traces and metrics
	SpanIDs         = host.SpanIDs         // gives the span of a turn the same id in every process
	Wallet          = host.Wallet          // moves money
	Transfer        = host.Transfer        // one payment as a wallet receives it
	WalletRefusal   = host.WalletRefusal   // the error of a wallet that moved no money
	PaymentPolicy   = host.PaymentPolicy   // who may pay what to whom

	PaymentCaps      = host.PaymentCaps      // limits the payments in one currency
	PaymentAuthority = host.PaymentAuthority // must allow each payment
	PaymentQuestion  = host.PaymentQuestion  // what an authority is asked
	PaymentDenial    = host.PaymentDenial    // the error of an authority that refuses a payment
)

// The overflow policies. Limits uses OverflowQueue if it names none.
const (
	OverflowQueue  = perdure.OverflowQueue
	OverflowReject = perdure.OverflowReject
	OverflowEvict  = perdure.OverflowEvict
)
