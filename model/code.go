package model

// Codes returns all codes.
func Codes() []Code {
	return []Code{
		RateLimited, Unavailable, Stalled, TooLarge, InvalidToolSchema, Misconfigured,
		QuotaExhausted, UsageLimit, ModelUnavailable, Processing,
	}
}
