package model

// Codes returns every code, in the order of 4.6.
func Codes() []Code {
	return []Code{
		RateLimited, Unavailable, Stalled, TooLarge, BadToolSchema, Misconfigured,
		QuotaExhausted, UsageLimit, NoModel, Processing,
	}
}
