# Helpers of the tests of limits.
limit_s=30  # for calls of half a second, on a busy machine

# unknown REASON ARGUMENTS...: exit 5, and some property is unknown for that reason.
unknown() {
  expect_exit 5 verify "${@:2}" --json
  expect_json "any('$1' in p.get('reason', '') for p in d['properties'].values())"
}
# The expression that expect_json checks after a call that decided nothing.
nothing="d['properties'] and all(p['verdict'] == 'unknown' for p in d['properties'].values())"
