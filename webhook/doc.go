// Package webhook holds the types and rules of webhooks: where events are sent, the queue of
// deliveries, and when a failed delivery is tried again.
//
// The package may import only the root package.
//
// The one thing to know: a delivery has the same id on all its attempts, derived from the webhook
// and the event. A receiver that remembers ids therefore accepts each event once, and a queue that
// is keyed by id contains each delivery once.
package webhook
