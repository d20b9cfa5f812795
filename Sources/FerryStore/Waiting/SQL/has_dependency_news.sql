-- Returns whether dependency_news has rows. Locks nothing.
SELECT EXISTS (SELECT FROM dependency_news)
