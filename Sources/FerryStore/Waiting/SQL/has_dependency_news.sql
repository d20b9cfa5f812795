-- Says whether there is news of dependencies that nobody has taken. Locks nothing.
SELECT EXISTS (SELECT FROM dependency_news)
