package settings

// Utility is the small model of a process that does work. Several commands have these flags.
type Utility struct {
	UtilityModel  string `name:"utility-model" help:"Small model that tools and the runtime use for short texts such as summaries and titles, named like --model. Its use is counted for the session. Default: none." placeholder:"MODEL"`
	SessionTitles bool   `name:"session-titles" help:"Let the utility model name sessions that have no title after their first turn."`
}
